"""The program `mtr`: one module a group of commands, loaded only when one of them is called."""
