"""The commands, by what they are about. Importing a module enters its commands in the table."""
