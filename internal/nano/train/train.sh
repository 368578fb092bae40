#!/bin/sh
# Makes the embedded models from nothing: virtual environment, corpus, training,
# export. Every stage that is done is skipped, and training resumes from its
# checkpoint, so an interrupted run is simply started again.
#
#   internal/nano/train/train.sh [chat] [diffusion]
#
# BUILD    folder for everything intermediate (default build/nano)
# MINUTES  training time of nano-chat (default 60)
# PYTHON   interpreter for the virtual environment (default python3)
# FLAGS    more flags for train.py, such as "--compile" where there is a C++ compiler
set -eu
cd "$(dirname "$0")/../../.."
build=${BUILD:-build/nano}
train=internal/nano/train
mkdir -p "$build/chat"

if [ ! -x "$build/venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$build/venv"
fi
python="$build/venv/bin/python"
"$python" -m pip install --quiet -r "$train/requirements.txt"

chat() {
    corpus="$build/chat/corpus.jsonl"
    if [ ! -f "$corpus" ]; then
        go run ./internal/nano/corpus write -seed 1 -to 400000 -out "$corpus.part"
        mv "$corpus.part" "$corpus"
    fi
    OMP_NUM_THREADS=1 "$python" "$train/train.py" --corpus "$corpus" --out "$build/chat" \
        --minutes "${MINUTES:-60}" ${FLAGS:-}
    "$python" "$train/export.py" --run "$build/chat" --out internal/nano/nano-chat.gguf --type q8_0
    go run ./internal/nano/corpus probe -n 20 -split test -out "$build/chat/probes.jsonl"
    "$python" "$train/reference.py" --model internal/nano/nano-chat.gguf --run "$build/chat" \
        --prompts "$build/chat/probes.jsonl" --out internal/nano/testdata/reference.jsonl
}

for model in ${*:-chat diffusion}; do
    case $model in
    chat) chat ;;
    diffusion) sh "$train/diffusion_train.sh" ;;
    *) echo "train.sh: unknown model $model, know: chat, diffusion" >&2; exit 1 ;;
    esac
done
