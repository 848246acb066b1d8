"""The event contract as pydantic models; JSON Schemas and AsyncAPI are generated from them."""
