#!/usr/bin/env bash
# The life of a small database in a local folder, told with the `slate` command: written, kept, cloned, destroyed, brought
# back, explained and collected. Takes less than a minute, and leaves what it made in .demo to play with.
set -euo pipefail
cd "$(dirname "$0")/.."

folder="$PWD/.demo"
rm -rf "$folder"
mkdir -p "$folder"
export SLATE_STORE="file://$folder" SLATE_PATH=orders

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '\033[36m$ %s\033[0m\n' "$*"; "$@"; }

say "A database is a folder of objects. This writes 5,000 orders into a new one, as SlateDB would:"
for i in $(seq 1 5000); do
  printf '{"key": "order:%05d", "value": "%d items for customer %d"}\n' "$i" $((i % 9 + 1)) $((i * 7919 % 997))
done > "$folder/orders.jsonl"
show slate import "$folder/orders.jsonl"
show slate scan --prefix order:0123 --limit 3

say "A checkpoint keeps this state for a week, whatever is written from now on:"
show slate create-checkpoint --name before-migration --lifetime "7days 30min 10s"
printf '{"key": "order:00042", "value": "migrated"}\n{"key": "order:00043", "value": null}\n' > "$folder/changes.jsonl"
show slate import --takeover "$folder/changes.jsonl"
show slate get order:00042
show slate get order:00042 --checkpoint before-migration

say "A clone of the checkpoint is a database of its own. It shares the SSTs, so it is there in a moment:"
show slate --path staging create-clone --from orders@before-migration
show slate --path staging get order:00042

say "How is it? Levels, log, checkpoints, clones, cost:"
show slate status

say "Destroyed: nobody gets in any more, and yet nothing is lost."
show slate destroy --yes
show slate get order:00042 || echo "  (exit code $?)"
show slate undelete
show slate get order:00042

say "What would garbage collection delete, and why? (In earnest it waits until things are five minutes old.)"
show slate gc --dry-run --min-age 0s

say "And of the rest: who holds it, and what would be free without them? (Here the SSTs; without a name, everything.)"
show slate explain compacted/

say "Every object is read and checked, checksums included:"
show slate verify

say "The databases stand in .demo: try \`slate --store file://$folder --path staging scan\`. SlateDB itself opens them, too."
