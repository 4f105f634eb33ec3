"""Takes a file:// image as a conductor does, with Ironic's own code."""
import sys

from ironic.common import image_service
from ironic.conf import CONF

allowed, href, path = sys.argv[1:]
CONF([], project="ironic")
# ironic-image sets this option for the volume that the containers share.
CONF.set_override("file_url_allowed_paths", [allowed], group="conductor")
service = image_service.get_image_service(href)
service.validate_href(href)
service.download(href, open(path, "wb"))
