"""Numbers and names within bounds."""

from typing import Annotated, Literal

from pydantic import Field

Share = Annotated[float, Field(ge=0, le=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
# Beyond ten million a count, and beyond a thousand million a number, is a slip of the keyboard.
NonNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
TimeLimit = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]  # seconds
Decay = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=10**7)]
CountOrZero = Annotated[int, Field(ge=0, le=10**7)]
Seed = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Dtype = Literal["float32", "bfloat16"]
