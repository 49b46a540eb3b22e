"""What is sent to the API and what it answers, as OpenAI's client libraries know it, with Attune's own fields beside."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from attune.emotion.taxonomy import LABELS, label_id
from attune.errors import AttuneError
from attune.respond.turns import cleaned


def _writable(text: str) -> str:
    if cleaned(text) != text.strip():
        raise ValueError("it has control characters, or halves of a character")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=256), AfterValidator(_writable)]
ConversationId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{16,64}$")]
FeedbackId = Annotated[str, StringConstraints(pattern=r"^feedback-[0-9a-f]{32}$")]


def _known_label(name: str) -> str:
    try:
        label_id(name)
    except AttuneError as error:
        raise ValueError(str(error)) from None
    return name


Label = Annotated[Name, AfterValidator(_known_label), Field(json_schema_extra={"enum": list(LABELS)})]


class Part(BaseModel):
    """A piece of a message. Only text can be read."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One message. The user is the speaker, the assistant the listener."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part] | None = Field(None, description="The text. Only an assistant's may be empty.")

    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


Messages = Annotated[list[Message], Field(min_length=1)]
MESSAGES = (
    "The conversation so far; the last message is the user's. Several in a row from one side are joined. What a system or "
    "developer message says is no instruction here and is not shown to the system; it is named in `attune.ignored`."
)


class StreamOptions(BaseModel):
    include_usage: bool = False


class ResponseFormat(BaseModel):
    type: Literal["text"]


class ChatRequest(BaseModel):
    """A request of OpenAI's chat completions. Fields that Attune has no use for (temperature, tools, …) are accepted and named in `attune.ignored`."""

    model_config = ConfigDict(extra="allow")

    messages: Messages = Field(description=MESSAGES)
    model: Name = Field("default", description="A system of GET /v1/models, or default.")
    stream: bool = Field(False, description="Answer as server-sent events, clause by clause.")
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = Field(None, description="Attune gives one reply.")
    response_format: ResponseFormat | None = Field(None, description="Attune speaks plain text only.")
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1, description="The same seed gives the same reply.")
    user: Name | None = Field(None, description="Who is talking, in your words; only kept with a store.")
    intent: Label | None = Field(
        None, description="The kind of reply to give, e.g. questioning; by default Attune decides."
    )
    conversation: ConversationId | None = Field(
        None, description="With a store: the conversation that goes on; by default a new one, named in the answer."
    )
    store: bool | None = Field(None, description="With a store: false keeps nothing of this request.")


class Usage(BaseModel):
    """Counted in words, not tokens: Attune charges for nothing, and its systems cut words differently."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Answer(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Choice(BaseModel):
    index: int = 0
    message: Answer
    finish_reason: Literal["stop"] = "stop"
    logprobs: None = None


class Known(BaseModel):
    """What Attune knows about its reply. Systems that do not perceive or decide leave those fields empty."""

    model_config = ConfigDict(extra="allow")

    reply_id: str = Field(description="The id of this reply, for feedback.")
    emotion: str | None = Field(description="What the speaker seems to feel, one of 32.")
    emotions: dict[str, float] = Field(description="All 32 with their shares, if the system perceives.")
    intent: str | None = Field(description="The kind of reply that was given.")
    intent_why: str
    concepts: list[dict[str, Any]]
    candidates: list[dict[str, Any]]
    guard: dict[str, Any] = Field(description="Risk in the person's words, and what the guard did about it.")
    timings: dict[str, float] = Field(description="Milliseconds per stage; `queue` is the time before the first.")
    system: str
    licence: str
    conversation: str | None = Field(None, description="With a store: where this conversation is kept.")
    ignored: list[str] = Field(description="What of the request was not used.")


class ChatCompletion(BaseModel):
    """A chat completion, with what Attune knows in `attune`. With `stream`, chunks of it; the last one has `attune`."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    attune: Known


class AboutModel(BaseModel):
    licence: str = Field(description="Of its weights; some are not for commercial use.")
    default: bool = Field(description="Whether it is the one that answers to the name default.")


class Model(BaseModel):
    """A system that can be talked with."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "attune"
    attune: AboutModel


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


class AnalyzeRequest(BaseModel):
    messages: Messages = Field(description=MESSAGES)
    model: Name = "default"


class AnalysisBody(BaseModel):
    """What is felt, what kind of reply would help, what is commonly known, and the emotional context graph."""

    model_config = ConfigDict(extra="allow")

    model: str
    emotion: str | None = None
    emotions: dict[str, float] = {}
    intent: str | None = None
    intents: dict[str, float] = {}
    concepts: list[dict[str, Any]] = []
    graph: dict[str, Any] | None = None


class FeedbackRequest(BaseModel):
    """What a person thinks of a reply. A later one about the same `reply_id` replaces it; one without `thumb` and `better` takes it back."""

    messages: Messages = Field(description="The conversation up to and including the reply, which is the last message.")
    consent: Literal[True] = Field(description="The person agreed that this is kept. Without that nothing is.")
    thumb: Literal["up", "down"] | None = None
    better: str | None = Field(None, max_length=10_000, description="“I would have said …”")
    reply_id: Name | None = Field(None, description="`attune.reply_id` of the reply.", max_length=64)
    model: Name | None = Field(None, description="The system that gave the reply: `model` of the answer.")
    conversation: ConversationId | None = None
    user: Name | None = None


class FeedbackBody(BaseModel):
    id: str | None = Field(description="Of what is kept, to have it erased; null if it was taken back.")


class Erased(BaseModel):
    """How much was erased."""

    conversations: int
    feedback: int


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    version: str
    systems: list[str]
    store: Literal["none", "ok", "away"] = Field(description="`none`: this server keeps nothing.")
    keys: bool = Field(description="Whether calls need an API key.")
