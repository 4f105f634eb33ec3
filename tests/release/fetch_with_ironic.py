"""Downloads an artefact as a conductor does, with Ironic's own code."""
import sys

from ironic.common import image_service
from ironic.conf import CONF

href, path = sys.argv[1:]
CONF([], project="ironic")
CONF.set_override("permit_fallback_to_http_transport", True, group="oci")
service = image_service.OciImageService()
service.validate_href(href)
with open(path, "wb") as out:
    service.download(href, out)
print(service.show(href)["image_type"])
