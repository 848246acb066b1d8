"""What happens when a guard is taken out: `make guards` shows that tests notice, one by one."""
