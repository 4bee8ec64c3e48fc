"""From a question to the token ids of a prompt, and from a solution to those of a demonstration."""

from collections.abc import Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from vineppo.config.schema import ChatPrompt, Prompt
from vineppo.errors import UserError


def encode_prompt(
    config: Prompt,
    tokenizer: PreTrainedTokenizerBase,
    question: str,
    context: Sequence[tuple[str, str]] = (),
    key: str = "task.prompt",
) -> tuple[int, ...]:
    """Token ids of the prompt, ready for the response's first token.

    Kind "template": `template` with the question in it, and the special tokens that the tokenizer
    puts around a text, except an end-of-sequence token behind it. Kind "chat": the tokenizer's chat
    template around the same text as a user message, up to where the assistant begins. The messages
    of `context`, as (role, content), stand before it. `key` is the config's.
    Raises UserError for a template without {question}, for a tokenizer without chat template, for a
    context in kind "template", and for a second system message.

    `TemplatePrompt("template", "Q: {question}\\nA:")` and the question "1+1?" give the ids of
    "<bos>Q: 1+1?\\nA:".
    """
    text = fill(config.template, "question", question, key=f"{key}.template")
    if isinstance(config, ChatPrompt):
        return _encode_chat(config, tokenizer, [*context, ("user", text)], key)
    if context:
        raise UserError(
            f"{key}.kind must be 'chat' for prompts of several messages, got 'template'"
        )
    ids_T = tokenizer(text)["input_ids"]
    eos_id = tokenizer.eos_token_id
    if ids_T[-1:] == [eos_id] and plain_ids(tokenizer, text)[-1:] != (eos_id,):
        ids_T = ids_T[:-1]
    return tuple(ids_T)


def encode_demonstration(
    response_template: str, tokenizer: PreTrainedTokenizerBase, solution: str
) -> tuple[int, ...]:
    """Token ids of the response that teaches `solution`, closed by the end-of-sequence token.

    They continue the ids of `encode_prompt`, so nothing is put in front of them. Raises UserError
    for a template without {solution} and for a tokenizer without end-of-sequence token.

    `encode_demonstration(" {solution}", tokenizer, "1+1=2")` gives the ids of " 1+1=2<eos>".
    """
    text = fill(response_template, "solution", solution, key="task.response_template")
    if tokenizer.eos_token_id is None:
        raise UserError(f"model.path: tokenizer {_name(tokenizer)} has no end-of-sequence token")
    return (*plain_ids(tokenizer, text), tokenizer.eos_token_id)


def plain_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    """Token ids of a text alone, without the special tokens that the tokenizer puts around it."""
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def fill(template: str, placeholder: str, text: str, *, key: str) -> str:
    # str.replace, since str.format would trip over the braces of LaTeX.
    field = f"{{{placeholder}}}"
    if field not in template:
        raise UserError(f"{key} must contain {field}, got {template!r}")
    return template.replace(field, text)


def _encode_chat(
    config: ChatPrompt,
    tokenizer: PreTrainedTokenizerBase,
    said: list[tuple[str, str]],
    key: str,
) -> tuple[int, ...]:
    if tokenizer.chat_template is None:
        raise UserError(
            f"{key}.kind 'chat' needs a tokenizer with a chat template, "
            f"got {_name(tokenizer)} without one; use 'template'"
        )
    if config.system is not None:
        if said[0][0] == "system":
            raise UserError(
                f"{key}.system must be null for prompts with a system message of their own, "
                f"got {config.system!r}"
            )
        said = [("system", config.system), *said]
    messages = [{"role": role, "content": content} for role, content in said]
    try:
        ids_T = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False
        )
    except TemplateError as error:  # some templates refuse a system message
        raise UserError(f"{key}: the chat template refuses it: {error}") from error
    return tuple(ids_T)


def _name(tokenizer: PreTrainedTokenizerBase) -> str:
    return tokenizer.name_or_path or type(tokenizer).__name__
