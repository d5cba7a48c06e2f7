"""The native protocol's words: frames, requests and answers. Pure: bytes in, words out."""
