"""From a question to the token ids of a prompt."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from transformers import PreTrainedTokenizerBase

from vineppo.config.schema import ChatPrompt, Prompt
from vineppo.errors import UserError
from vineppo.tasks.data_text import as_text, encode

NOW = date(2026, 1, 1).strftime  # of templates that write the date: a resumed run asks the same


def encode_prompt(
    config: Prompt,
    tokenizer: PreTrainedTokenizerBase,
    question: str,
    context: Sequence[tuple[str, str]] = (),
    key: str = "task.prompt",
) -> tuple[int, ...]:
    """Token ids of the prompt, ready for the response. It begins with one BOS at most.

    Kind "template": `template` with the question in it and the tokenizer's special tokens around
    it, but no end-of-sequence token. Kind "chat": the chat template around the same text as a user
    message, behind the (role, content) messages of `context`. Both end with `response_prefix`.
    `key` is the config's.

    `TemplatePrompt("template", "Q: {question}\\nA:")` and the question "1+1?" give the ids of
    "<bos>Q: 1+1?\\nA:". Raises UserError for what the template or the tokenizer cannot hold.
    """
    masked = as_text(tokenizer, question)
    text = fill(config.template, "question", masked, key=f"{key}.template")
    if isinstance(config, ChatPrompt):
        said = [(role, as_text(tokenizer, content)) for role, content in context]
        ids_T = _encode_chat(config, tokenizer, [*said, ("user", text)], key)
    elif context:
        raise UserError(
            f"{key}.kind must be 'chat' for prompts of several messages, got 'template'"
        )
    else:
        text = opened(config, text)
        ids_T, eos_ids = encode(tokenizer, text, add_special_tokens=True), (tokenizer.eos_token_id,)
        if ids_T[-1:] == eos_ids and encode(tokenizer, text)[-1:] != eos_ids:
            ids_T = ids_T[:-1]
    # A template may name the BOS that the tokenizer puts there too.
    while ids_T[:2] == (tokenizer.bos_token_id,) * 2:
        ids_T = ids_T[1:]
    return ids_T


def fill(template: str, placeholder: str, text: str, *, key: str) -> str:
    # str.replace, since str.format would trip over the braces of LaTeX.
    field = f"{{{placeholder}}}"
    if field not in template:
        raise UserError(f"{key} must contain {field}, got {template!r}")
    return template.replace(field, text)


def _encode_chat(
    config: ChatPrompt, tokenizer: PreTrainedTokenizerBase, said: list[tuple[str, str]], key: str
) -> tuple[int, ...]:
    if tokenizer.chat_template is None:
        name = tokenizer.name_or_path or type(tokenizer).__name__
        raise UserError(
            f"{key}.kind 'chat' needs a tokenizer with a chat template, "
            f"got {name} without one; use 'template'"
        )
    if config.system is not None:
        if said[0][0] == "system":
            raise UserError(
                f"{key}.system must be null for prompts with a system message, "
                f"got {config.system!r}"
            )
        said = [("system", config.system), *said]
    messages = [{"role": role, "content": content} for role, content in said]
    text = render(tokenizer, messages, key, **config.chat_template_kwargs)
    return encode(tokenizer, opened(config, text))


def opened(config: Prompt, text: str) -> str:
    """A prompt that begins the answer; a chat template may end with `response_prefix` itself."""
    return text if text.endswith(config.response_prefix) else text + config.response_prefix


def render(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]], key: str, **options: Any
) -> str:
    """The chat template around `messages`, with its `options`, up to where the assistant begins."""
    try:
        text = tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=False, strftime_now=NOW, **options
        )
    except Exception as error:  # a template is a program: some refuse a system message, some fail
        name = type(error).__name__
        raise UserError(f"{key}: the chat template refuses it: {name}: {error}") from error
    assert isinstance(text, str), "of one conversation"
    return text
