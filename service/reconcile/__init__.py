"""Leased jobs that ask the PSP: scheduler, worker, heartbeat, watcher."""
