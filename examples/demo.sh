#!/usr/bin/env bash
# Writes, reads back and explains a small database in a local folder, with the `slate` command.
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

say "Reading it back, by key and by range:"
show slate get order:00042
show slate scan --prefix order:0123 --limit 5
show slate --output json scan --start order:04999

say "Two more commands change it: one order is delivered, one is cancelled."
printf '{"key": "order:00042", "value": "delivered"}\n{"key": "order:00043", "value": null}\n' > "$folder/changes.jsonl"
show slate import --takeover "$folder/changes.jsonl"
show slate scan --start order:00041 --end order:00045

say "What is in the folder now, and who needs it:"
show slate explain

say "One object, decoded:"
show slate inspect "manifest/$(basename "$(ls "$folder/orders/manifest" | tail -n 1)")"

say "Every object is read and checked, checksums included:"
show slate verify

say "The database stands in .demo/orders. SlateDB itself opens it, and so does any command above."
