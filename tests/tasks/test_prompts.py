import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from vineppo.config.schema import ChatPrompt, TemplatePrompt
from vineppo.errors import UserError
from vineppo.tasks.arithmetic_tokenizer import build_tokenizer
from vineppo.tasks.prompts import encode_demonstration, encode_prompt

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ '1' if m.role == 'user' else '0' }}={{ m.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}2={% endif %}"
)


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def _with_eos(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """A tokenizer that ends every text with <eos>, as T5's does."""
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A <eos>",
        special_tokens=[("<bos>", tokenizer.bos_token_id), ("<eos>", tokenizer.eos_token_id)],
    )
    assert tokenizer("1")["input_ids"][-1] == tokenizer.eos_token_id
    return tokenizer


def test_template(tokenizer: PreTrainedTokenizerFast) -> None:
    ids_T = encode_prompt(TemplatePrompt("template", "{question}\n"), tokenizer, "4+6?")
    assert tokenizer.decode(ids_T) == "<bos>4+6?\n"


def test_an_appended_eos_is_left_out(tokenizer: PreTrainedTokenizerFast) -> None:
    prompt = TemplatePrompt("template", "{question}\n")
    expected = encode_prompt(prompt, tokenizer, "4+6?")
    assert encode_prompt(prompt, _with_eos(build_tokenizer()), "4+6?") == expected


def test_an_eos_that_the_template_names_stays(tokenizer: PreTrainedTokenizerFast) -> None:
    ids_T = encode_prompt(TemplatePrompt("template", "{question}<eos>"), tokenizer, "4+6?")
    assert tokenizer.decode(ids_T) == "<bos>4+6?<eos>"


@pytest.mark.parametrize(
    ("system", "expected"), [(None, "<bos>1=4+6?\n2="), ("7", "<bos>0=7\n1=4+6?\n2=")]
)
def test_chat(tokenizer: PreTrainedTokenizerFast, system: str | None, expected: str) -> None:
    tokenizer.chat_template = CHAT_TEMPLATE
    ids_T = encode_prompt(ChatPrompt("chat", "{question}", system), tokenizer, "4+6?")
    assert all(isinstance(token_id, int) for token_id in ids_T)
    assert tokenizer.decode(ids_T) == expected


def test_messages_before_the_question(tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.chat_template = CHAT_TEMPLATE
    context = (("system", "7"), ("user", "1+1?"), ("assistant", "2"))
    ids_T = encode_prompt(ChatPrompt("chat", "{question}", None), tokenizer, "4+6?", context)
    assert tokenizer.decode(ids_T) == "<bos>0=7\n1=1+1?\n0=2\n1=4+6?\n2="
    with pytest.raises(
        UserError, match=r"task\.prompt\.kind must be 'chat' for prompts of several"
    ):
        encode_prompt(TemplatePrompt("template", "{question}"), tokenizer, "4+6?", context)
    with pytest.raises(
        UserError, match=r"task\.prompt\.system must be null for prompts with a sys"
    ):
        encode_prompt(ChatPrompt("chat", "{question}", "8"), tokenizer, "4+6?", context)


def test_chat_without_a_chat_template_is_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(UserError, match=r"task\.prompt\.kind 'chat' needs .* chat template"):
        encode_prompt(ChatPrompt("chat", "{question}", None), tokenizer, "4+6?")


def test_a_chat_template_that_refuses_is_the_user_s_to_mend(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    tokenizer.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(UserError, match=r"task\.prompt: .*no system role"):
        encode_prompt(ChatPrompt("chat", "{question}", "7"), tokenizer, "4+6?")


def test_demonstration_continues_the_prompt(tokenizer: PreTrainedTokenizerFast) -> None:
    prompt = encode_prompt(TemplatePrompt("template", "{question}\n"), tokenizer, "4+6?")
    response = encode_demonstration("{solution}", tokenizer, "4+6=0\n####0")
    assert tokenizer.decode(prompt + response) == "<bos>4+6?\n4+6=0\n####0<eos>"
    assert encode_demonstration("{solution}", _with_eos(build_tokenizer()), "4+6=0\n####0") == (
        response
    )


def test_braces_are_literal(tokenizer: PreTrainedTokenizerFast) -> None:
    """Braces are foreign to this tokenizer, so each shows as <unk>: `{x}`, 5, `{question}`."""
    prompt = TemplatePrompt("template", "{1}{question}{")
    ids_T = encode_prompt(prompt, tokenizer, "{question}5")
    assert tokenizer.decode(ids_T) == "<bos><unk>1<unk>" + "<unk>" * len("{question}") + "5<unk>"


def test_templates_without_their_field_are_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(UserError, match=r"task\.prompt\.template must contain \{question\}"):
        encode_prompt(TemplatePrompt("template", "{problem}"), tokenizer, "4+6?")
    with pytest.raises(UserError, match=r"task\.response_template must contain \{solution\}"):
        encode_demonstration("{answer}", tokenizer, "4")


def test_a_tokenizer_without_eos_is_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.eos_token = None
    with pytest.raises(UserError, match="no end-of-sequence token"):
        encode_demonstration("{solution}", tokenizer, "4")
