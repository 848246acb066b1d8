-- Read what operators have set for all processes.
SELECT healing_paused, mode, heals_left, heals_minute, version
FROM controls
