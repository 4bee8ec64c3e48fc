from dataclasses import replace

import pytest
from support.task_configs import jsonl_config
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from vineppo.config.schema import ChatPrompt, TemplatePrompt
from vineppo.errors import UserError
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.sft import encode_demonstration
from vineppo.tasks.prompts import encode_prompt

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ '1' if m.role == 'user' else '0' }}={{ m.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}2={% if short %}####{% endif %}"
    "{% if dated %}{{ strftime_now('%Y%m%d') }}{% endif %}{% endif %}"
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


PLAIN = TemplatePrompt("template", "{question}\n")
CHAT = ChatPrompt("chat", "{question}", None)
OPENED = replace(CHAT, response_prefix="####")
SAID = (("system", "7"), ("user", "1+1?"), ("assistant", "2"))


@pytest.mark.parametrize(
    ("prompt", "question", "context", "expected"),
    [
        (PLAIN, "4+6?", (), "<bos>4+6?\n"),
        (TemplatePrompt("template", "{question}<eos>"), "4+6?", (), "<bos>4+6?<eos>"),
        # Braces are literal; they are foreign to this tokenizer, so each shows as <unk>.
        (TemplatePrompt("template", "{1}{question}{"), "{5}", (),
         "<bos><unk>1<unk><unk>5<unk><unk>"),
        (CHAT, "4+6?", (), "<bos>1=4+6?\n2="),
        (ChatPrompt("chat", "{question}", "7"), "4+6?", (), "<bos>0=7\n1=4+6?\n2="),
        (CHAT, "4+6?", SAID, "<bos>0=7\n1=1+1?\n0=2\n1=4+6?\n2="),
        # Options reach the template, and a prefix that it has written is not written again.
        (replace(CHAT, chat_template_kwargs={"short": True}), "4", (), "<bos>1=4\n2=####"),
        (replace(CHAT, chat_template_kwargs={"dated": True}), "4", (), "<bos>1=4\n2=20260101"),
        (OPENED, "4", (), "<bos>1=4\n2=####"),
        (replace(OPENED, chat_template_kwargs={"short": True}), "4", (), "<bos>1=4\n2=####"),
        (replace(PLAIN, response_prefix="4+"), "4+6?", (), "<bos>4+6?\n4+"),
    ],
)  # fmt: skip
def test_prompts(tokenizer, prompt, question, context, expected) -> None:
    tokenizer.chat_template = CHAT_TEMPLATE
    ids_T = encode_prompt(prompt, tokenizer, question, context)
    assert all(isinstance(token_id, int) for token_id in ids_T)
    assert tokenizer.decode(ids_T) == expected


def test_an_appended_eos_is_left_out(tokenizer: PreTrainedTokenizerFast) -> None:
    expected = encode_prompt(PLAIN, tokenizer, "4+6?")
    assert encode_prompt(PLAIN, _with_eos(build_tokenizer()), "4+6?") == expected


REFUSING = "{{ raise_exception('no system role') }}"


@pytest.mark.parametrize(
    ("template", "prompt", "context", "message"),
    [
        (CHAT_TEMPLATE, PLAIN, SAID, r"task\.prompt\.kind must be 'chat' for prompts of several"),
        (CHAT_TEMPLATE, ChatPrompt("chat", "{question}", "8"), SAID,
         r"task\.prompt\.system must be null for prompts with a sys"),
        (None, CHAT, (), r"task\.prompt\.kind 'chat' needs .* chat template"),
        (REFUSING, CHAT, (), r"task\.prompt: .*no system role"),
        *(
            (template, CHAT, (), r"^task\.prompt: the chat template refuses it: \w+Error: ")
            for template in ("{{ messages + 1 }}", "{{ messages[9].content.x }}", "{{ 1 / 0 }}")
        ),
        (None, TemplatePrompt("template", "{problem}"), (),
         r"task\.prompt\.template must contain \{question\}"),
    ],
)  # fmt: skip
def test_prompts_that_are_refused(tokenizer, template, prompt, context, message) -> None:
    tokenizer.chat_template = template
    with pytest.raises(UserError, match=message):
        encode_prompt(prompt, tokenizer, "4+6?", context)


def test_demonstration_continues_the_prompt(tokenizer: PreTrainedTokenizerFast) -> None:
    prompt = encode_prompt(PLAIN, tokenizer, "4+6?")
    response = encode_demonstration(jsonl_config(), tokenizer, "4+6=0\n####0")
    assert tokenizer.decode(prompt + response) == "<bos>4+6?\n4+6=0\n####0<eos>"
    with_eos = _with_eos(build_tokenizer())
    assert encode_demonstration(jsonl_config(), with_eos, "4+6=0\n####0") == response


def test_a_chats_demonstration_closes_its_turn_and_begins_where_the_prompt_ends(tokenizer) -> None:
    tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>"]})
    tokenizer.chat_template = CHAT_TEMPLATE.replace("}}\n", "}}<turn>")
    for task, prompt in ((OPENED, "<bos>1=4<turn>2=####"), (CHAT, "<bos>1=4<turn>2=")):
        ids_T = encode_prompt(task, tokenizer, "4")
        assert tokenizer.decode(ids_T) == prompt
        ids_T += encode_demonstration(jsonl_config(prompt=task), tokenizer, "####0")
        assert tokenizer.decode(ids_T) == "<bos>1=4<turn>2=####0<turn>"
