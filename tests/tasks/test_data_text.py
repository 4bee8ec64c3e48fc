"""Names of special tokens in data are text, with tokenizers of every kind."""

from dataclasses import replace
from typing import Any

import pytest
from support.task_configs import jsonl_config
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import AddedToken, PreTrainedTokenizerFast

from vineppo.config.load import load_config
from vineppo.config.schema import ChatPrompt, SftConfig, TemplatePrompt
from vineppo.encoding import encode_problems
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.informed import View, ViewConfig
from vineppo.recipes.sft import encode_demonstration, encode_demonstrations
from vineppo.tasks.data_text import as_text, encode
from vineppo.tasks.prompts import encode_prompt
from vineppo.types import Problem

SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
CHAT = (
    "{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>' }}\n{{ m.content | trim }}"
    "</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
TURNS = ("<|user|>", "<|assistant|>", "<|system|>")


def fast(backend: Tokenizer) -> PreTrainedTokenizerFast:
    """With <s> before every text, and the roles' tokens, which take the line's end along."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)
    turns = [AddedToken(name, rstrip=True, normalized=False, special=True) for name in TURNS]
    tokenizer.add_tokens(turns, special_tokens=True)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )
    tokenizer.chat_template = CHAT
    return tokenizer


def byte_level() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("<", "s"), ("Ġ", "4")]  # one across the place where a template meets a question
    tokens = [*alphabet, *map("".join, merges)]
    backend = Tokenizer(BPE({token: i for i, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return fast(backend)


def metaspace() -> PreTrainedTokenizerFast:
    """As Llama 2's: bytes, and a blank before a text, but before none of its later parts."""
    characters = [chr(code) for code in range(33, 127)]
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *characters]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    backend = Tokenizer(BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return fast(backend)


def words() -> PreTrainedTokenizerFast:
    """One that has the names of special tokens among its words."""
    tokens = ("<unk>", "<pad>", "<s>", "</s>", "4", "+", "6")
    backend = Tokenizer(WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(" "), behavior="removed")
    return fast(backend)


def lower_case() -> PreTrainedTokenizerFast:
    """One that reads </S> as </s>."""
    tokenizer = byte_level()
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_tokens([AddedToken("<sep>", normalized=True, special=True)], special_tokens=True)
    return tokenizer


KINDS = {"bytes": byte_level, "metaspace": metaspace}
QUESTIONS = [
    "4+6</s>?", "<s>4+6?", "4<s>6</s><pad>", "<|user|>\n4+6?<|assistant|>\n10", " 4 </s> 6",
    "</s>", "<</s>s>", "the <s>wrong</s> 𝑥 — 5",
]  # fmt: skip


def control_ids(tokenizer: Any) -> set[int]:
    return {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}


def of_control(tokenizer: Any, ids: tuple[int, ...]) -> list[str]:
    return [tokenizer.convert_ids_to_tokens(i) for i in ids if i in control_ids(tokenizer)]


def decoded(tokenizer: Any, ids: tuple[int, ...]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_text_in_every_kind_of_prompt(kind: str, question: str) -> None:
    tokenizer = KINDS[kind]()
    template = TemplatePrompt("template", "<s>Q: {question}</s>A:")
    found = encode_prompt(template, tokenizer, question)
    assert of_control(tokenizer, found) == ["<s>", "</s>"]
    assert decoded(tokenizer, found).replace("<s> ", "<s>", 1) == f"<s>Q: {question}</s>A:"
    chat, before = ChatPrompt("chat", "{question}", "Go </s>"), (("user", question),)
    found = encode_prompt(chat, tokenizer, question, (*before, ("assistant", question)))
    roles = ("system", "user", "assistant", "user")
    turns = [name for role in roles for name in (f"<|{role}|>", "</s>")]
    # The config's own system message holds a control token: that is its author's.
    assert of_control(tokenizer, found) == ["<s>", *turns[:1], "</s>", *turns[1:], "<|assistant|>"]
    said = question.strip()
    assert decoded(tokenizer, found).count(said) >= 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("context", [(), (("user", "Hi  there"), ("assistant", "4"))])
def test_without_such_names_prompts_are_transformers_own(kind: str, context: Any) -> None:
    tokenizer = KINDS[kind]()
    template = TemplatePrompt("template", "Q: {question}\nA:")
    expected = tokenizer("Q: 4+6 ?\nA:")["input_ids"]
    assert list(encode_prompt(template, tokenizer, "4+6 ?")) == expected
    said = [{"role": role, "content": text} for role, text in (*context, ("user", "4+6 ?"))]
    expected = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=False)
    chat = ChatPrompt("chat", "{question}", None)
    assert list(encode_prompt(chat, tokenizer, "4+6 ?", context)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_around_such_a_name_all_is_as_without_it(kind: str) -> None:
    """Blanks at the seams and merges across them included: only the name itself is other tokens."""
    tokenizer = KINDS[kind]()
    tokenizer.add_tokens([AddedToken("NAME", normalized=False)])
    (name,) = tokenizer("NAME", add_special_tokens=False)["input_ids"][-1:]
    for text in ("<s>Q: {}4 6</s>A:", "<|user|>\n Q {}4</s><|assistant|>\n", "{}4"):
        expected = list(encode(tokenizer, text.format("NAME"), add_special_tokens=True))
        found = list(encode(tokenizer, text.format(as_text(tokenizer, "<pad>")), True))
        at = expected.index(name)
        assert found[:at] == expected[:at]
        assert found[at - len(expected) + 1 :] == expected[at + 1 :] or not expected[at + 1 :]


@pytest.mark.parametrize("kind", KINDS)
def test_solutions_and_answers_are_text(kind: str) -> None:
    tokenizer = KINDS[kind]()
    found = encode_demonstration(jsonl_config(), tokenizer, "4+6</s>=10")
    assert of_control(tokenizer, found) == ["</s>"] == of_control(tokenizer, found[-1:])
    closed = jsonl_config(response_template="{solution}</s>")
    assert encode_demonstration(closed, tokenizer, "4+6</s>=10") == found
    config = ViewConfig(template="<pad>{answer} {solution}", place="before_prompt", rollouts=None)
    problem = Problem("p", "4+6?", "1</s>0", "4<s>6")
    prompt_ids = encode_prompt(TemplatePrompt("template", "{question}"), tokenizer, "4+6?")
    seen = View(config, tokenizer, "critic")._prompt_ids(prompt_ids, problem, ())
    assert of_control(tokenizer, seen) == ["<s>", "<pad>"]
    assert "1</s>0 4<s>6" in decoded(tokenizer, seen)


@pytest.mark.parametrize(
    ("made", "text"),
    [(words, "4 + </s> 6"), (lower_case, "4<SEP>6"), (byte_level, "4\U00108001</s>")],
    ids=["words", "lower case", "a reserved character"],
)
def test_what_cannot_be_text_is_refused_in_a_line(made: Any, text: str) -> None:
    tokenizer = made()
    with pytest.raises(UserError, match=r"^text must (not hold the name|have no characters)"):
        encode_prompt(TemplatePrompt("template", "{question}"), tokenizer, text)
    assert encode_prompt(TemplatePrompt("template", "{question}"), tokenizer, "4 ? 6")


def test_a_refused_row_is_named(configs: Any) -> None:
    loaded = replace(load_model("embedded:arithmetic_short", "float32", "sdpa"), tokenizer=words())
    config = load_config(SftConfig, str(configs / "sft_arithmetic.jsonnet"), [])
    wrong = Problem("jsonl/train/17", "4 + 6", "10", "4 </s> 10")
    with pytest.raises(UserError, match=r"^problem jsonl/train/17: text must not hold"):
        encode_demonstrations(config, loaded, [wrong])
    with pytest.raises(UserError, match=r"^problem jsonl/train/18: text must not hold"):
        encode_problems(
            config,
            loaded,
            [replace(wrong, id="jsonl/train/18", question="<s>")],
            config.task.too_long,
        )


@pytest.mark.parametrize("question", ["4+6?", "<bos>4+6?", "<bos><bos>4+6<eos>?"])
@pytest.mark.parametrize("template", ["{question}\n", "<bos>{question}\n", "<bos><bos>{question}"])
def test_a_prompt_has_one_bos(template: str, question: str) -> None:
    tokenizer = build_tokenizer()
    found = encode_prompt(TemplatePrompt("template", template), tokenizer, question)
    assert (found[0], found.count(tokenizer.bos_token_id)) == (tokenizer.bos_token_id, 1)
    tokenizer.chat_template = "{{ bos_token }}" + "{{ messages[0].content }}"
    found = encode_prompt(ChatPrompt("chat", template, None), tokenizer, question)
    assert (found[0], found.count(tokenizer.bos_token_id)) == (tokenizer.bos_token_id, 1)
