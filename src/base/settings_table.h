// One row per setting; see settings.h. Included inside namespace strata.
#pragma once

#define STRATA_SETTINGS(X)                                                                                            \
  X(kModel, "model", SettingType::kText, "", 0, 0, "", "",                                                            \
    kScopeEngine | kScopeInspect | kScopeTokenize | kScopeQuantize | kScopeTemplate,                                  \
    "Model: a .gguf file, any file of a split one, or its folder; empty for the demo model (not eval, quantize)")     \
  X(kPrompt, "prompt", SettingType::kText, "", 0, 0, "", "", kScopeRun,                                               \
    "Text to continue (-p), or with --chat the message; without one it is read from standard input, and on a "        \
    "terminal a chat begins")                                                                                         \
  X(kRaw, "raw", SettingType::kSwitch, "off", 0, 0, "", "", kScopeRun,                                                \
    "Continue the prompt as it is, as without --chat, and never begin a chat")                                        \
  X(kChat, "chat", SettingType::kSwitch, "off", 0, 0, "", "", kScopeRun,                                              \
    "Take the prompt as a message, put it into the model's chat template, and print the answer")                      \
  X(kReasoning, "reasoning", SettingType::kChoice, "auto", 0, 0, "", "auto|on|off", kScopeRun,                        \
    "Whether a model that can think first does, in chats; auto leaves it to the chat template")                       \
  X(kEvaluation, "evaluation", SettingType::kChoice, "logprobs", 0, 0, "", "logprobs|perplexity|kl", kScopeEval,      \
    "What to compute; the first word after eval")                                                                     \
  X(kIdsFile, "ids-file", SettingType::kText, "", 0, 0, "", "", kScopeEval,                                           \
    "File of the token ids to evaluate, separated by white space; - for standard input")                              \
  X(kFile, "file", SettingType::kText, "", 0, 0, "", "", kScopeEval | kScopeBench | kScopeProfile,                    \
    "Text whose perplexity is computed, or, for profile record, whose experts are; - for standard input; for bench "  \
    "system a file whose drive is measured")                                                                          \
  X(kProfiling, "profiling", SettingType::kChoice, "show", 0, 0, "", "record|show|merge|replay", kScopeProfile,       \
    "What to do with profiles of experts; the first word after profile")                                              \
  X(kProfileFiles, "profile-files", SettingType::kText, "", 0, 0, "", "", kScopeProfile,                              \
    "Profile to show, recording to replay, or either kind to merge, separated by commas; the words after it")         \
  X(kRoutings, "routings", SettingType::kText, "", 0, 0, "", "", kScopeProfile,                                       \
    "File for profile record that takes every token's experts, for profile replay; empty for none")                   \
  X(kSlots, "slots", SettingType::kText, "", 0, 0, "slots", "", kScopeProfile,                                        \
    "Sizes of caches for profile replay, separated by commas; empty for 5, 10, 25, 50 and 75 % of all experts")       \
  X(kReference, "reference", SettingType::kText, "", 0, 0, "", "", kScopeEval,                                        \
    "Log-probabilities of the same ids to compare with, as eval logprobs writes them")                                \
  X(kOut, "out", SettingType::kText, "", 0, 0, "", "", kScopeEval | kScopeQuantize | kScopeProfile,                   \
    "File that takes the results; it is replaced when they are complete")                                             \
  X(kType, "type", SettingType::kText, "", 0, 0, "", "", kScopeQuantize | kScopeBench,                                \
    "What to quantise to: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, "       \
    "Q4_K_M, Q5_K_S, Q5_K_M, Q6_K, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0, MXFP4_MOE, NVFP4, Q1_0 or Q2_0; for bench kernels "  \
    "a tensor type, empty for all")                                                                                   \
  X(kPure, "pure", SettingType::kSwitch, "off", 0, 0, "", "", kScopeQuantize,                                         \
    "Give every tensor that is quantised the same type, Q4_K for Q4_K_M or Q4_K; off gives some a better one")        \
  X(kAllowRequantize, "allow-requantize", SettingType::kSwitch, "off", 0, 0, "", "", kScopeQuantize,                  \
    "Also convert tensors that are quantised already, at a cost in quality")                                          \
  X(kJson, "json", SettingType::kSwitch, "off", 0, 0, "", "", kScopeInspect | kScopeBench,                            \
    "Print JSON instead of text")                                                                                     \
  X(kSpecial, "special", SettingType::kSwitch, "on", 0, 0, "", "", kScopeTokenize,                                    \
    "Tokenize the texts of special tokens as those tokens; detokenize special tokens as their texts")                 \
  X(kMessages, "messages", SettingType::kText, "", 0, 0, "", "", kScopeTemplate,                                      \
    "File of the conversation: a JSON array of messages with role and content; - for standard input")                 \
  X(kTools, "tools", SettingType::kText, "", 0, 0, "", "", kScopeTemplate,                                            \
    "File of the tools the model may call: a JSON array; empty for none")                                             \
  X(kGenerationPrompt, "generation-prompt", SettingType::kSwitch, "on", 0, 0, "", "", kScopeTemplate,                 \
    "End the prompt with the beginning of an answer")                                                                 \
  X(kChatTemplate, "chat-template", SettingType::kText, "", 0, 0, "", "", kScopeTemplate | kScopeAnswer,              \
    "Use this instead of the model's chat template: a file, or chatml, llama2, mistral, glm4, deepseek3, llama3, "    \
    "harmony or deepseek2; empty for the model's")                                                                    \
  X(kAct, "act", SettingType::kChoice, "auto", 0, 0, "", "auto|f32|q8", kScopeEngine,                                 \
    "Type that activations are rounded to before matrix products: q8 for 8-bit integer products, f32 for none; auto " \
    "is f32 for eval, else q8")                                                                                       \
  X(kKvType, "kv-type", SettingType::kChoice, "auto", 0, 0, "", "auto|f32|f16|bf16|q8_0", kScopeEngine,               \
    "Type of the KV cache; auto is f32 for eval, else f16")                                                           \
  X(kCtx, "ctx", SettingType::kInt, "auto", 1, 16777216, "tokens", "", kScopeEngine,                                  \
    "Context: tokens of prompt and answer together; auto is the model's own, at most 8192, for eval as many as "      \
    "there are ids, for eval perplexity 512, and for bench what its largest test needs")                              \
  X(kRopeScaling, "rope-scaling", SettingType::kChoice, "auto", 0, 0, "", "auto|none|linear|yarn", kScopeEngine,      \
    "How rope is scaled for contexts longer than the model was trained with; auto is as the model's file says, and "  \
    "linear where it says nothing and --rope-scale is given")                                                         \
  X(kRopeScale, "rope-scale", SettingType::kFloat, "auto", 0.001, 10000, "", "", kScopeEngine,                        \
    "How many times longer than it was trained with the context is; auto is as the model's file says")                \
  X(kRopeFreqBase, "rope-freq-base", SettingType::kFloat, "auto", 2, 1e15, "", "", kScopeEngine,                      \
    "Base of rope's frequencies; auto is as the model's file says")                                                   \
  X(kRopeFreqScale, "rope-freq-scale", SettingType::kFloat, "auto", 0.0001, 1000, "", "", kScopeEngine,               \
    "One over --rope-scale")                                                                                          \
  X(kYarnOrigCtx, "yarn-orig-ctx", SettingType::kInt, "auto", 1, 16777216, "tokens", "", kScopeEngine,                \
    "Context that the model was trained with, for YaRN; auto is as the model's file says")                            \
  X(kYarnExtFactor, "yarn-ext-factor", SettingType::kFloat, "auto", 0, 1, "", "", kScopeEngine,                       \
    "How much of the frequencies that YaRN would keep is kept; 0 scales all of them linearly; auto is 1")             \
  X(kYarnAttnFactor, "yarn-attn-factor", SettingType::kFloat, "auto", 0.001, 1000, "", "", kScopeEngine,              \
    "Multiplies what YaRN does to the size of queries and keys; auto is 1")                                           \
  X(kYarnBetaSlow, "yarn-beta-slow", SettingType::kFloat, "auto", 0.001, 1e6, "turns", "", kScopeEngine,              \
    "YaRN scales what turns less than this within the original context; auto is 1")                                   \
  X(kYarnBetaFast, "yarn-beta-fast", SettingType::kFloat, "auto", 0.001, 1e6, "turns", "", kScopeEngine,              \
    "YaRN keeps what turns more than this within the original context; auto is 32")                                   \
  X(kThreads, "threads", SettingType::kInt, "auto", 1, 1024, "threads", "",                                           \
    kScopeAnswer | kScopeEval | kScopeQuantize | kScopePlan | kScopeProfile,                                          \
    "Computing threads; auto is one per physical core")                                                               \
  X(kCpus, "cpus", SettingType::kText, "", 0, 0, "", "", kScopeEngine,                                                \
    "Cores to use, as 0-3,8; empty for all that the process may use")                                                 \
  X(kDevice, "device", SettingType::kText, "cpu", 0, 0, "", "", kScopeEngine,                                         \
    "Device to compute on: cpu, cuda:0 (an NVIDIA GPU; cuda is the first), or a simulated one, as sim:64MiB (it "     \
    "computes on cpu, slowly, and checks itself)")                                                                    \
  X(kExperts, "experts", SettingType::kChoice, "auto", 0, 0, "", "auto|arena|resident|mapped|direct", kScopeEngine,   \
    "Where experts that no device cache holds are read from: arena (all copied to RAM at start), resident (those "    \
    "copied that fit), mapped (the file's pages) or direct (read when needed, past the system's cache); auto is "     \
    "arena if it fits, else resident")                                                                                \
  X(kResidentExperts, "resident-experts", SettingType::kSwitch, "off", 0, 0, "", "", kScopeEngine,                    \
    "Short for --experts resident")                                                                                   \
  X(kMmapExperts, "mmap-experts", SettingType::kSwitch, "off", 0, 0, "", "", kScopeEngine,                            \
    "Short for --experts mapped")                                                                                     \
  X(kResidentBudgetGib, "resident-budget-gib", SettingType::kFloat, "auto", 0, 1048576, "GiB", "", kScopeEngine,      \
    "RAM for experts that stay there (--experts resident, direct), the hottest first; auto is what fits")             \
  X(kSharedExpertArena, "shared-expert-arena", SettingType::kText, "", 0, 0, "", "", kScopeEngine,                    \
    "File in memory (on tmpfs, as /dev/shm/NAME, or hugetlbfs) with one copy of the experts for all engines that name "\
    "it: the first loads it; see docs/SHARED_ARENA.md; empty for none")                                               \
  X(kSharedArenaTimeoutS, "shared-arena-timeout-s", SettingType::kInt, "600", 1, 1048576, "s", "",                    \
    kScopeEngine & ~kScopePlan,                                                                                       \
    "How long to wait for an engine that loads the shared arena and makes no progress")                               \
  X(kVerifyArena, "verify-arena", SettingType::kSwitch, "off", 0, 0, "", "", kScopeEngine & ~kScopePlan,              \
    "Print a checksum of all experts' bytes on stderr, and compare it with that of the shared arena's loader")        \
  X(kStagePin, "stage-pin", SettingType::kSwitch, "on", 0, 0, "", "", kScopeEngine,                                   \
    "Page-lock the buffers that direct reads land in, where a device copies out of them")                             \
  X(kPleIo, "ple-io", SettingType::kChoice, "direct", 0, 0, "", "direct|ram|mapped", kScopeEngine,                    \
    "Where rows of a model's n-gram table are read from: direct (the file, when they are needed, past the system's "  \
    "cache), ram (all copied there at start) or mapped (the file's pages)")                                           \
  X(kIoTimeoutS, "io-timeout-s", SettingType::kInt, "600", 1, 1048576, "s", "", kScopeEngine,                          \
    "A read of experts or n-gram rows that takes longer fails its request")                                           \
  X(kStallNoticeS, "stall-notice-s", SettingType::kInt, "30", 0, 1048576, "s", "", kScopeEngine & ~kScopePlan,        \
    "Without any progress of a load or a step for that long, warn and say which thread waits for what; 0 for never")   \
  X(kExpertCache, "expert-cache", SettingType::kInt, "auto", 0, 1048576, "slots", "", kScopeEngine,                   \
    "Experts that lie in the device's own memory; auto is as many as fit, and none on cpu")                           \
  X(kCacheMinSlots, "cache-min-slots", SettingType::kInt, "128", 0, 1048576, "slots", "", kScopeEngine,               \
    "Slots that the expert cache keeps when prompts borrow from it")                                                  \
  X(kPrefillBorrow, "prefill-borrow", SettingType::kSwitch, "on", 0, 0, "", "", kScopeEngine,                         \
    "Let prompts stream experts through slots that the expert cache lends; off keeps memory of the device for it")    \
  X(kLendRegions, "lend-regions", SettingType::kSwitch, "on", 0, 0, "", "", kScopeEngine,                             \
    "Keep the experts whose slots prompts borrow in the resident copy too; off takes less RAM, and prompts read them "\
    "from the files")                                                                                                 \
  X(kPcieFrac, "pcie-frac", SettingType::kFloat, "auto", 0, 1, "", "", kScopeEngine,                                  \
    "Share of the experts that the expert cache lacks which the device reads from page-locked RAM over its link, "    \
    "while the CPU computes the others; auto measures both and has them end together")                                \
  X(kStreamRows, "stream-rows", SettingType::kInt, "auto", 1, 1048576, "rows", "", kScopeEngine,                      \
    "Rows from which on a step of prompts streams experts that the expert cache lacks to the device, instead of "     \
    "computing them on the CPU; auto is from where each expert gets twelve rows on average")                          \
  X(kLayerSplit, "layer-split", SettingType::kText, "auto", 0, 0, "layers", "", kScopeEngine,                         \
    "How many layers each device of --device computes, in their order, separated by commas; auto chooses, and may "   \
    "leave a device out")                                                                                             \
  X(kPeerCopies, "peer-copies", SettingType::kSwitch, "on", 0, 0, "", "", kScopeEngine,                               \
    "Hand hidden rows from GPU to GPU where they reach each other; off takes the way through memory of the host")     \
  X(kAdapt, "adapt", SettingType::kSwitch, "on", 0, 0, "", "", kScopeEngine,                                          \
    "While answers are computed, move the experts that are used most of late into the device's cache, or where "      \
    "there is none into the resident copy")                                                                           \
  X(kAdaptEvery, "adapt-every", SettingType::kInt, "4", 1, 1048576, "steps", "", kScopeEngine,                        \
    "Steps between two decisions on which experts to move")                                                           \
  X(kExpertProfile, "expert-profile", SettingType::kText, "", 0, 0, "", "", kScopeEngine,                             \
    "File that says how often experts are used, which decides what lies in the device's cache and in the resident "   \
    "copy at the start; see strata profile; empty for none")                                                          \
  X(kExpertProfileSave, "expert-profile-save", SettingType::kText, "", 0, 0, "", "", kScopeRun,                       \
    "File that takes, at the end, what --expert-profile says and how often experts were used since")                  \
  X(kVramBudgetGib, "vram-budget-gib", SettingType::kText, "", 0, 0, "GiB", "", kScopeEngine,                         \
    "Memory of devices that is used at most: one number for all, or one for each, separated by commas; empty for "    \
    "all that they have, or on a GPU all that is free")                                                               \
  X(kVramReserveMib, "vram-reserve-mib", SettingType::kInt, "700", 0, 1048576, "MiB", "",                             \
    kScopeEngine & ~kScopePlan,                                                                                       \
    "Memory of a GPU, of what may be used, that the model leaves free for what the driver takes late")                \
  X(kRamGib, "ram-gib", SettingType::kFloat, "0", 0, 1048576, "GiB", "", kScopeEngine,                                \
    "RAM the plan may count on; 0 is what the system says is available")                                              \
  X(kRamHeadroomGib, "ram-headroom-gib", SettingType::kFloat, "auto", 0, 1048576, "GiB", "", kScopeEngine,            \
    "RAM left free of what the system says is available; auto is 4, at most a quarter; --ram-gib takes its place")   \
  X(kPrefill, "prefill", SettingType::kInt, "auto", 1, 8192, "tokens", "", kScopeEngine,                              \
    "Prompt tokens computed together; auto takes 4096 on GPUs that have 14 GiB or more to use, 2048 on smaller "      \
    "ones, so that experts which have to cross a link do so for many tokens, and 512 elsewhere")                      \
  X(kDeterministic, "deterministic", SettingType::kSwitch, "off", 0, 0, "", "", kScopeEngine,                         \
    "The same bits for any batch, chunking, thread count and source")                                                 \
  X(kGraph, "graph", SettingType::kSwitch, "on", 0, 0, "", "", kScopeEngine,                                          \
    "Record each step's operations once and replay them")                                                             \
  X(kIsa, "isa", SettingType::kChoice, "auto", 0, 0, "", "auto|scalar|avx2|avx512|avx512vnni|amx", kScopeEngine,      \
    "Instruction set of the CPU kernels; auto is the best this machine has, for bench kernels all it has")            \
  X(kBenchmark, "benchmark", SettingType::kChoice, "model", 0, 0, "", "model|system|kernels|serve", kScopeBench,      \
    "What to measure; the first word after bench, where a model stands for itself")                                   \
  X(kNPrompt, "n-prompt", SettingType::kText, "512", 0, 0, "tokens", "", kScopeBench,                                 \
    "Lengths of the prompts to measure (-p), separated by commas; 0 for none")                                        \
  X(kNGen, "n-gen", SettingType::kText, "64", 0, 0, "tokens", "", kScopeBench,                                        \
    "Numbers of tokens to generate one at a time (-n), separated by commas; 0 for none")                              \
  X(kNThreads, "n-threads", SettingType::kText, "auto", 0, 0, "threads", "", kScopeBench,                             \
    "Numbers of computing threads to measure with (-t), separated by commas; auto is one per physical core")          \
  X(kRepetitions, "repetitions", SettingType::kInt, "5", 1, 1000, "", "", kScopeBench,                                \
    "How often each test is measured (-r), after one run that does not count")                                        \
  X(kShape, "shape", SettingType::kText, "768x2048", 0, 0, "", "", kScopeBench,                                       \
    "Shapes of the weights that bench kernels multiplies with, ROWSxCOLUMNS, separated by commas")                    \
  X(kNTokens, "tokens", SettingType::kText, "1,64,512", 0, 0, "tokens", "", kScopeBench,                              \
    "Numbers of tokens that bench kernels computes at once, separated by commas")                                     \
  X(kBufferMib, "buffer-mib", SettingType::kInt, "auto", 1, 1048576, "MiB", "", kScopeBench,                          \
    "Memory that is read to measure its speed; auto is 2048, and for bench kernels 256, or twice the caches if that " \
    "is more")                                                                                                        \
  X(kStats, "stats", SettingType::kSwitch, "off", 0, 0, "", "", kScopeAnswer | kScopeEval | kScopeBench,              \
    "Print counters and speed on stderr at the end")                                                                  \
  X(kPredict, "predict", SettingType::kInt, "auto", 0, 16777216, "tokens", "", kScopeRun,                             \
    "Tokens to generate (-n); auto ends at the end-of-text token, at the latest after 512, and in chats when the "    \
    "context is full")                                                                                                \
  X(kTemp, "temp", SettingType::kFloat, "0.8", 0, 100, "", "", kScopeAnswer,                                          \
    "Sampling temperature; 0 takes the most probable token")                                                          \
  X(kTopK, "top-k", SettingType::kInt, "40", 0, 16777216, "tokens", "", kScopeAnswer,                                 \
    "Sample from the k most probable tokens; 0 for all")                                                              \
  X(kTopP, "top-p", SettingType::kFloat, "0.95", 0, 1, "", "", kScopeAnswer,                                          \
    "Sample from the most probable tokens that together reach this probability; 1 for all")                           \
  X(kMinP, "min-p", SettingType::kFloat, "0.05", 0, 1, "", "", kScopeAnswer,                                          \
    "Leave out tokens less probable than this share of the most probable one; 0 for none")                            \
  X(kTypical, "typical", SettingType::kFloat, "1", 0, 1, "", "", kScopeAnswer,                                        \
    "Sample from the tokens of the most typical surprise that together reach this probability; 1 for all")            \
  X(kTopNSigma, "top-nsigma", SettingType::kFloat, "-1", -1, 100, "", "", kScopeAnswer,                               \
    "Leave out tokens whose logit is this many standard deviations below the best; 0 or less for none")               \
  X(kXtcProbability, "xtc-probability", SettingType::kFloat, "0", 0, 1, "", "", kScopeAnswer,                         \
    "How often the most probable tokens are left out; 0 for never")                                                   \
  X(kXtcThreshold, "xtc-threshold", SettingType::kFloat, "0.1", 0, 1, "", "", kScopeAnswer,                           \
    "Probability from which tokens may be left out so, all but the least probable of them; above 0.5 for never")      \
  X(kMinKeep, "min-keep", SettingType::kInt, "0", 0, 16777216, "tokens", "", kScopeAnswer,                            \
    "Tokens that top-p, min-p, typical and xtc leave at least")                                                       \
  X(kDynatempRange, "dynatemp-range", SettingType::kFloat, "0", 0, 100, "", "", kScopeAnswer,                         \
    "Let the temperature follow the entropy, within temp - range and temp + range; 0 for a fixed one")                \
  X(kDynatempExp, "dynatemp-exp", SettingType::kFloat, "1", 0, 100, "", "", kScopeAnswer,                             \
    "Exponent of the entropy that the temperature follows")                                                           \
  X(kRepeatLastN, "repeat-last-n", SettingType::kInt, "64", -1, 16777216, "tokens", "", kScopeAnswer,                 \
    "Last tokens that the repeat, presence and frequency penalties look at; 0 for none, -1 for all")                  \
  X(kRepeatPenalty, "repeat-penalty", SettingType::kFloat, "1", 0.01, 100, "", "", kScopeAnswer,                      \
    "Divisor of the logits of repeated tokens; 1 for none")                                                           \
  X(kPresencePenalty, "presence-penalty", SettingType::kFloat, "0", -100, 100, "", "", kScopeAnswer,                  \
    "Subtracted once from the logits of repeated tokens")                                                             \
  X(kFrequencyPenalty, "frequency-penalty", SettingType::kFloat, "0", -100, 100, "", "", kScopeAnswer,                \
    "Subtracted from the logits of repeated tokens for every occurrence")                                             \
  X(kDryMultiplier, "dry-multiplier", SettingType::kFloat, "0", 0, 100, "", "", kScopeAnswer,                         \
    "Penalty of tokens that would prolong a repeated sequence (DRY); 0 for none")                                     \
  X(kDryBase, "dry-base", SettingType::kFloat, "1.75", 0, 100, "", "", kScopeAnswer,                                  \
    "Factor of this penalty for every token of the sequence over the allowed length; below 1 for none")               \
  X(kDryAllowedLength, "dry-allowed-length", SettingType::kInt, "2", 0, 16777216, "tokens", "", kScopeAnswer,         \
    "Repeated sequences of this length begin to be penalised so")                                                     \
  X(kDryPenaltyLastN, "dry-penalty-last-n", SettingType::kInt, "64", -1, 16777216, "tokens", "", kScopeAnswer,        \
    "Last tokens searched for repeated sequences; 0 for none, -1 for all")                                            \
  X(kDrySequenceBreaker, "dry-sequence-breaker", SettingType::kText, "\\n,:,\",*", 0, 0, "", "", kScopeAnswer,        \
    "Texts that end a repeated sequence, separated by commas, with \\n \\t \\r \\\\ \\, as in C; none for none")      \
  X(kMirostat, "mirostat", SettingType::kInt, "0", 0, 2, "", "", kScopeAnswer,                                        \
    "Version of Mirostat, which takes the place of all stages but the temperature; 0 for none")                       \
  X(kMirostatLr, "mirostat-lr", SettingType::kFloat, "0.1", 0, 100, "", "", kScopeAnswer,                             \
    "Learning rate of Mirostat (eta)")                                                                                \
  X(kMirostatEnt, "mirostat-ent", SettingType::kFloat, "5", 0, 100, "bits", "", kScopeAnswer,                         \
    "Surprise of tokens that Mirostat aims at (tau)")                                                                 \
  X(kAdaptiveTarget, "adaptive-target", SettingType::kFloat, "-1", -1, 1, "", "", kScopeAnswer,                       \
    "Probability of tokens that adaptive-p aims at; below 0 for no adaptive-p")                                       \
  X(kAdaptiveDecay, "adaptive-decay", SettingType::kFloat, "0.9", 0, 0.99, "", "", kScopeAnswer,                      \
    "How much adaptive-p remembers of older tokens")                                                                  \
  X(kSamplers, "samplers", SettingType::kText, "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",   \
    0, 0, "", "", kScopeAnswer,                                                                                       \
    "Sampling stages in their order, as names separated by ; or as letters of edskypmxt")                             \
  X(kLogitBias, "logit-bias", SettingType::kText, "", 0, 0, "", "", kScopeRun,                                        \
    "Numbers to add to the logits of token ids, as 15043+1.5,29871-inf")                                              \
  X(kIgnoreEos, "ignore-eos", SettingType::kSwitch, "off", 0, 0, "", "", kScopeRun,                                   \
    "Never sample a token that ends the text")                                                                        \
  X(kRepeatStopTokens, "repeat-stop-tokens", SettingType::kInt, "256", 0, 16777216, "tokens", "", kScopeAnswer,       \
    "End after the same token this often in a row; 0 for never")                                                      \
  X(kSeed, "seed", SettingType::kInt, "auto", 0, 4294967295.0, "", "", kScopeRun,                                     \
    "Seed of the sampler; auto takes another one each time")                                                          \
  X(kHost, "host", SettingType::kText, "127.0.0.1", 0, 0, "", "", kScopeServe,                                        \
    "Address or name to listen on; 0.0.0.0 for all interfaces, which wants a key")                                    \
  X(kPort, "port", SettingType::kInt, "8080", 0, 65535, "", "", kScopeServe, "Port to listen on; 0 for a free one")   \
  X(kAlias, "alias", SettingType::kText, "", 0, 0, "", "", kScopeServe,                                               \
    "Name of the model in replies; empty for the file's")                                                             \
  X(kParallel, "parallel", SettingType::kInt, "4", 1, 256, "", "", kScopeServe,                                       \
    "Answers that are computed at once (slots), each with a context of --ctx tokens of its own")                      \
  X(kMaxQueue, "max-queue", SettingType::kInt, "64", 0, 65536, "", "", kScopeServe,                                   \
    "Answers that may wait for a slot; more are refused with 429")                                                    \
  X(kMaxGapMs, "max-gap-ms", SettingType::kInt, "500", 1, 3600000, "ms", "", kScopeServe,                             \
    "Longest wait of an answer for its next token while prompts are read; they are cut into pieces for that")         \
  X(kMaxBodyMib, "max-body-mib", SettingType::kInt, "16", 1, 1024, "MiB", "", kScopeServe,                            \
    "Largest body of a request")                                                                                      \
  X(kRequestTimeoutS, "request-timeout-s", SettingType::kInt, "3600", 0, 1000000, "s", "", kScopeServe,               \
    "Longest time of a request, waiting included; 0 for no limit")                                                    \
  X(kShutdownTimeoutS, "shutdown-timeout-s", SettingType::kInt, "10", 0, 86400, "s", "", kScopeServe,                 \
    "Time that requests under way have to end after SIGTERM or Ctrl-C; the signal again ends at once")                \
  X(kApiKey, "api-key", SettingType::kText, "", 0, 0, "", "", kScopeServe | kScopeRun | kScopeBench,                  \
    "Keys that clients have to send, separated by commas, with --connect and bench serve the one to send; empty for " \
    "none. Other users of the machine see flags, but not the environment")                                            \
  X(kApiKeyFile, "api-key-file", SettingType::kText, "", 0, 0, "", "", kScopeServe,                                   \
    "File of such keys, one a line")                                                                                  \
  X(kAllowNoKey, "allow-no-key", SettingType::kSwitch, "off", 0, 0, "", "", kScopeServe,                              \
    "Listen on an address that other machines reach without asking for a key")                                        \
  X(kAllowHost, "allow-host", SettingType::kText, "", 0, 0, "", "", kScopeServe,                                      \
    "Names beside localhost by which clients without a key may call this server, separated by commas")                \
  X(kCorsOrigin, "cors-origin", SettingType::kText, "", 0, 0, "", "", kScopeServe,                                    \
    "Origins of web pages that may use the server, as https://app.example, separated by commas; * for all")           \
  X(kConnect, "connect", SettingType::kText, "", 0, 0, "", "", kScopeRun | kScopeBench,                               \
    "Use a server instead of a model: its URL, as http://127.0.0.1:8080, for bench serve a running one")              \
  X(kClients, "clients", SettingType::kText, "1,4,16", 0, 0, "", "", kScopeBench,                                     \
    "Numbers of clients that bench serve measures with, separated by commas")                                         \
  X(kLogLevel, "log-level", SettingType::kChoice, "warning", 0, 0, "", "debug|info|warning|error", kScopeGlobal,      \
    "Least severe message shown on stderr")
