"""The requests that a service answers, as an OpenAPI document made of its verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow import __version__
from hedgerow.parties.wire.handlers import Verb
from hedgerow.parties.wire.requests import (
    FIELDS_HEADER,
    JSON_TYPE,
    PAYLOAD_TYPE,
    REQUEST_HEADER,
    VERSION,
)

_SCHEMAS = "#/components/schemas/"
_BYTES = {PAYLOAD_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "expected", "found", "fix"],
            "properties": {
                name: {"type": "string", "maxLength": 2000}
                for name in ("code", "expected", "found", "fix")
            },
        }
    },
}


def openapi(verbs: Mapping[str, Verb], title: str) -> dict[str, Any]:
    """Return the document, in version 3.1, whose schemas are those of JSON Schema."""
    schemas: dict[str, Any] = {"Refusal": _ERROR}
    paths: dict[str, Any] = {
        f"/{VERSION}/{name}": {"post": _operation(name, verb, schemas)}
        for name, verb in sorted(verbs.items())
    }
    for path, what in (
        ("/healthz", "Whether this party answers."),
        ("/metrics", "Public numbers, in the text format of Prometheus."),
        ("/openapi.json", "This document."),
    ):
        paths[path] = {"get": {"summary": what, "responses": {"200": {"description": what}}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__},
        "security": [{"mutualTLS": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"mutualTLS": {"type": "mutualTLS"}},
        },
    }


def fields_schema(verb: Verb) -> dict[str, Any]:
    """Return the JSON Schema of the fields of a verb."""
    return verb.fields.model_json_schema(ref_template=_SCHEMAS + "{model}")


def _operation(name: str, verb: Verb, schemas: dict[str, Any]) -> dict[str, Any]:
    schema = fields_schema(verb)
    schemas |= schema.pop("$defs", {})
    schemas[verb.fields.__name__] = schema
    fields = {JSON_TYPE: {"schema": {"$ref": _SCHEMAS + verb.fields.__name__}}}
    headers: list[dict[str, Any]] = [
        {
            "name": REQUEST_HEADER,
            "in": "header",
            "description": "Names the request in the logs of both parties.",
            "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        }
    ]
    body: dict[str, Any] = dict(fields)
    if verb.largest:
        about = "The fields, if the body is payload."
        headers.append(
            {"name": FIELDS_HEADER, "in": "header", "description": about, "content": fields}
        )
        body |= _BYTES
    summary, _, rest = verb.about.partition("\n")
    reply = {
        "description": "Fields; with payload they are in the header, and it is the body.",
        "content": {JSON_TYPE: {"schema": {"type": "object"}}, **_BYTES},
    }
    refusal = {
        "description": "A numbered error.",
        "content": {JSON_TYPE: {"schema": {"$ref": _SCHEMAS + "Refusal"}}},
    }
    return {
        "operationId": name,
        "summary": summary,
        "description": " ".join(f"{rest} Made twice: {verb.twice}".split()),
        "x-roles": sorted(verb.roles),
        "x-largest-payload": verb.largest,
        "parameters": headers,
        "requestBody": {"content": body},
        "responses": {"200": reply, "default": refusal},
    }
