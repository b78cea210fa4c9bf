"""xjudge: may this LLM judge replace human labels, and how do we know?"""
