"""The learned value function: a model of its own, or a head on the policy's backbone."""

from vineppo.critic.interface import Critic
from vineppo.critic.separate import SeparateValueModel
from vineppo.critic.shared import SharedValueHead

__all__ = ["Critic", "SeparateValueModel", "SharedValueHead"]
