"""A segmenter by entropies, as a user's file has it."""

from vineppo.segment import Segmenter, spans_from_starts


class Uncertain(Segmenter):
    """Steps begin where the entropy is above 0.5."""

    reads_entropies = True

    def spans(self, texts_T, logprobs_T=None, entropies_T=None, /):  # noqa: ARG002
        starts = [t for t, entropy in enumerate(entropies_T) if entropy > 0.5]
        return spans_from_starts(len(texts_T), starts)


UNCERTAIN = Uncertain(f"{__file__}:Uncertain")
