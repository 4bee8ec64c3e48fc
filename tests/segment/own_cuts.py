"""A user's own segmenter: a step begins behind every full stop."""


def cuts(text: str) -> list[int]:
    return [place + 1 for place, char in enumerate(text) if char == "."]
