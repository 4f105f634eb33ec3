# The loop of ironic-python-agent 13.0, both for an image that it streams and for an image
# that it downloads first: it reads pieces of 1 MiB with requests, and adds each piece to
# a hashlib digest and to a file (extensions/standby.py: ImageDownload,
# _stream_raw_image_onto_device, _download_image). It does not flush the file to disk.
import hashlib
import os
import sys

import requests

url, output, sha256, cpu_before = sys.argv[1:]

# Record the processor time of the start of Python and its libraries. The bench subtracts
# it, because the real agent already runs when it gets an image.
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
