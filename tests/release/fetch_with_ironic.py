"""Downloads an artefact as a conductor does, with Ironic's own code.

fetch_with_ironic.py URL FILE [AUTHENTICATION_CONFIG]
"""
import sys

from ironic.common import image_service
from ironic.conf import CONF

href, path, *secrets = sys.argv[1:]
CONF([], project="ironic")
CONF.set_override("permit_fallback_to_http_transport", True, group="oci")
for file in secrets:
    CONF.set_override("authentication_config", file, group="oci")
service = image_service.OciImageService()
# A conductor calls set_image_auth first, here for a node without a secret of its own.
service.set_image_auth(href, {})
service.validate_href(href)
with open(path, "wb") as out:
    service.download(href, out)
print(service.show(href)["image_type"])
