# What ironic-python-agent 13.0 does with an image that it streams, and with one
# that it downloads first: requests in pieces of 1 MiB, each into a hashlib
# digest and into a file (extensions/standby.py: ImageDownload,
# _stream_raw_image_onto_device, _download_image). It asks for no flush.
import hashlib
import os
import sys

import requests

url, output, sha256, cpu_before = sys.argv[1:]

# The agent has been running for long when an image comes: starting Python
# and its libraries is none of its work here.
with open(cpu_before, "w") as file:
    times = os.times()
    file.write(str(times.user + times.system))

answer = requests.get(url, stream=True, timeout=60)
answer.raise_for_status()
digest = hashlib.new("sha256")
with open(output, "wb+") as disk:
    for chunk in answer.iter_content(1024 * 1024):
        digest.update(chunk)
        disk.write(chunk)
if digest.hexdigest() != sha256:
    sys.exit("the digest differs")
