"""Plan to circuit, scheduler, timers."""
