"""May this LLM judge replace human labels, and how do we know? Agreement as a measurement protocol."""
