// Continues prompts greedily with node-llama-cpp, as an outside judge.
//
// Standard input: {"n", "threads", "batch", "swaFull": bool, "runs": [{"model": path,
//   "flash": bool, "context": rows, "prompts": [[token id]], "texts": [string]}]}
// Standard output: {"version", "results": [{"continuations": [[token id]],
//   "texts": [[token id]]}]}, one result per run: n tokens after every prompt, and
//   each text as the model's vocabulary splits it, control words taken as letters.
//
// Token ids go in and come out as they are: no start token is added, no sampler
// but the greedy one runs, and an end token is a token like any other. Every
// prompt runs on an empty sequence of its own, in one batch, then token by token.
// The packages are taken from node_modules beside this file, or from the folder
// that TRIMTAB_NODE_MODULES names.
import fs from "node:fs";
import path from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = path.resolve(process.env.TRIMTAB_NODE_MODULES || path.join(here, "node_modules"));
const judge = path.join(modules, "node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(path.join(judge, "dist", "index.js")).href);

const chunks = [];
for await (const chunk of process.stdin)
    chunks.push(chunk);
const job = JSON.parse(Buffer.concat(chunks).toString("utf8"));
const llama = await getLlama({
    gpu: false, build: "never", skipDownload: true, progressLogs: false,
    logLevel: LlamaLogLevel.error, maxThreads: job.threads
});

async function continuation(context, prompt) {
    const sequence = context.getSequence();
    const tokens = [];
    try {
        // temperature 0 is the greedy sampler alone; a prompt must not be empty
        const steps = sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true});
        for await (const token of steps) {
            tokens.push(token);
            if (tokens.length === job.n)
                break;
        }
    } finally {
        sequence.dispose();
    }
    return tokens;
}

async function run({model: modelPath, flash, context: contextSize, prompts, texts}) {
    const model = await llama.loadModel({modelPath, gpuLayers: 0});
    const context = await model.createContext({
        sequences: 1, contextSize, batchSize: job.batch, threads: job.threads,
        flashAttention: flash, swaFullCache: job.swaFull, failedCreationRemedy: false
    });
    const continuations = [];
    for (const prompt of prompts)
        continuations.push(await continuation(context, prompt));
    const result = {continuations, texts: texts.map((text) => model.tokenize(text, false))};
    await context.dispose();
    await model.dispose();
    return result;
}

const results = [];
for (const one of job.runs)
    results.push(await run(one));
const {version} = JSON.parse(fs.readFileSync(path.join(judge, "package.json"), "utf8"));
await new Promise((done) => process.stdout.write(JSON.stringify({version, results}) + "\n", done));
await llama.dispose();
