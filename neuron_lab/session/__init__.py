"""One armed period: `profile()` starts the producers and hands back a `Profile` for the readers."""

from neuron_lab.session.armed import ProfileSession, profile
from neuron_lab.session.live import LiveCounters
from neuron_lab.session.result import Profile, last_profile, load

__all__ = ["LiveCounters", "Profile", "ProfileSession", "last_profile", "load", "profile"]
