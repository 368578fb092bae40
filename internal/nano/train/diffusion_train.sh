#!/bin/sh
# Makes nano-diffusion from nothing: virtual environment, puzzles, training, export,
# reference values. Every stage that is done is skipped, and training resumes from
# its checkpoint, so an interrupted run is simply started again.
#
# BUILD    folder for everything intermediate (default build/nano)
# MINUTES  training time (default 40)
# PYTHON   interpreter for the virtual environment (default python3)
set -eu
cd "$(dirname "$0")/../../.."
build=${BUILD:-build/nano}
train=internal/nano/train
model=internal/nano/nano-diffusion.gguf
mkdir -p "$build/diffusion"

if [ ! -x "$build/venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$build/venv"
fi
python="$build/venv/bin/python"
"$python" -m pip install --quiet -r "$train/requirements.txt"

puzzles="$build/diffusion/puzzles.jsonl"
if [ ! -f "$puzzles" ]; then
    go run ./internal/nano/diffusion/puzzles write -seed 1 -to 400000 -out "$puzzles.part"
    mv "$puzzles.part" "$puzzles"
fi
go run ./internal/nano/diffusion/puzzles probe -n 10 -split test -out "$build/diffusion/probes.jsonl"
OMP_NUM_THREADS=1 "$python" "$train/diffusion_train.py" --puzzles "$puzzles" --out "$build/diffusion" --minutes "${MINUTES:-40}"
"$python" "$train/diffusion_export.py" --run "$build/diffusion" --out "$model" --type q8_0
mkdir -p internal/nano/diffusion/testdata
"$python" "$train/diffusion_reference.py" --model "$model" --probes "$build/diffusion/probes.jsonl" \
    --out internal/nano/diffusion/testdata/reference.jsonl
