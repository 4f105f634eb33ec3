"""Validates an SBOM against the schema of CycloneDX that it names."""
import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

text = open(sys.argv[1], encoding="utf-8").read()
version = SchemaVersion.from_version(json.loads(text)["specVersion"])
fault = JsonStrictValidator(version).validate_str(text)
if fault is not None:
    sys.exit(f"{sys.argv[1]}: {fault}")
