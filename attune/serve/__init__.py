"""The HTTP API, compatible with OpenAI's client libraries, and the web chat."""
