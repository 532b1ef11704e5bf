// One row per setting; see settings.h. Included inside namespace strata.
#pragma once

#define STRATA_SETTINGS(X)                                                                                            \
  X(kModel, "model", SettingType::kText, "", 0, 0, "", "",                                                            \
    kScopeEngine | kScopeInspect | kScopeTokenize,                                                                    \
    "Model: a .gguf file, any file of a split one, or its folder; empty for the demo model")                          \
  X(kPrompt, "prompt", SettingType::kText, "", 0, 0, "", "", kScopeRun,                                               \
    "Text to continue (-p); without one it is read from standard input")                                              \
  X(kRaw, "raw", SettingType::kSwitch, "off", 0, 0, "", "", kScopeRun,                                                \
    "Take the prompt as it is; so is every prompt, until chat templates are supported")                               \
  X(kIdsFile, "ids-file", SettingType::kText, "", 0, 0, "", "", kScopeEval,                                           \
    "File of the token ids to evaluate, separated by white space; - for standard input")                              \
  X(kOut, "out", SettingType::kText, "", 0, 0, "", "", kScopeEval,                                                    \
    "File that takes the results; it is replaced when they are complete")                                             \
  X(kJson, "json", SettingType::kSwitch, "off", 0, 0, "", "", kScopeInspect,                                          \
    "Print JSON instead of text")                                                                                     \
  X(kSpecial, "special", SettingType::kSwitch, "on", 0, 0, "", "", kScopeTokenize,                                    \
    "Tokenize the texts of special tokens as those tokens; detokenize special tokens as their texts")                 \
  X(kAct, "act", SettingType::kChoice, "f32", 0, 0, "", "f32", kScopeEngine,                                          \
    "Type that activations are rounded to before matrix products; f32 does not round")                                \
  X(kKvType, "kv-type", SettingType::kChoice, "auto", 0, 0, "", "auto|f32|f16", kScopeEngine,                         \
    "Type of the KV cache; auto is f32 for eval and f16 for run")                                                     \
  X(kCtx, "ctx", SettingType::kInt, "auto", 1, 16777216, "tokens", "", kScopeEngine,                                  \
    "Context: tokens of prompt and answer together; auto is the model's own, at most 8192, and for eval as many "     \
    "as there are ids")                                                                                               \
  X(kThreads, "threads", SettingType::kInt, "auto", 1, 1024, "threads", "", kScopeEngine,                             \
    "Computing threads; auto is one per physical core")                                                               \
  X(kCpus, "cpus", SettingType::kText, "", 0, 0, "", "", kScopeEngine,                                                \
    "Cores to use, as 0-3,8; empty for all that the process may use")                                                 \
  X(kDevice, "device", SettingType::kText, "cpu", 0, 0, "", "", kScopeEngine,                                         \
    "Device to compute on: cpu")                                                                                      \
  X(kExperts, "experts", SettingType::kChoice, "auto", 0, 0, "", "auto|arena|mapped", kScopeEngine,                   \
    "Where expert bytes are read from: arena (copied to RAM at start) or mapped (the file's pages); auto is arena "   \
    "if it fits")                                                                                                     \
  X(kRamGib, "ram-gib", SettingType::kFloat, "0", 0, 1048576, "GiB", "", kScopeEngine,                                \
    "RAM the plan may count on; 0 is what the system says is available")                                              \
  X(kRamHeadroomGib, "ram-headroom-gib", SettingType::kFloat, "auto", 0, 1048576, "GiB", "", kScopeEngine,               \
    "RAM always left free; auto is 4, at most a quarter of what is available")                                                                                           \
  X(kChunk, "chunk", SettingType::kInt, "512", 1, 8192, "tokens", "", kScopeEngine,                                   \
    "Prompt tokens computed together")                                                                                \
  X(kDeterministic, "deterministic", SettingType::kSwitch, "off", 0, 0, "", "", kScopeEngine,                         \
    "The same bits for any batch, chunking, thread count and source")                                                 \
  X(kGraph, "graph", SettingType::kSwitch, "on", 0, 0, "", "", kScopeEngine,                                          \
    "Record each step's operations once and replay them")                                                             \
  X(kIsa, "isa", SettingType::kChoice, "auto", 0, 0, "", "auto|scalar|avx2|avx512", kScopeEngine,                     \
    "Instruction set of the CPU kernels; auto is the best this machine has")                                          \
  X(kStats, "stats", SettingType::kSwitch, "off", 0, 0, "", "", kScopeEngine,                                         \
    "Print counters and speed on stderr at the end")                                                                  \
  X(kPredict, "predict", SettingType::kInt, "auto", 0, 16777216, "tokens", "", kScopeRun,                             \
    "Tokens to generate (-n); auto ends at the end-of-text token, at the latest after 512")                           \
  X(kTemp, "temp", SettingType::kFloat, "0.8", 0, 100, "", "", kScopeRun,                                             \
    "Sampling temperature; 0 takes the most probable token")                                                          \
  X(kTopK, "top-k", SettingType::kInt, "40", 0, 16777216, "tokens", "", kScopeRun,                                    \
    "Sample from the k most probable tokens; 0 for all")                                                              \
  X(kTopP, "top-p", SettingType::kFloat, "0.95", 0, 1, "", "", kScopeRun,                                             \
    "Sample from the most probable tokens that together reach this probability; 1 for all")                           \
  X(kMinP, "min-p", SettingType::kFloat, "0.05", 0, 1, "", "", kScopeRun,                                             \
    "Leave out tokens less probable than this share of the most probable one; 0 for none")                            \
  X(kSeed, "seed", SettingType::kInt, "auto", 0, 4294967295.0, "", "", kScopeRun,                                     \
    "Seed of the sampler; auto takes another one each time")                                                          \
  X(kLogLevel, "log-level", SettingType::kChoice, "warning", 0, 0, "", "debug|info|warning|error", kScopeGlobal,      \
    "Least severe message shown on stderr")
