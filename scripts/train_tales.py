#!/usr/bin/env python3
"""Train the demo model: a small Qwen3-MoE that tells tales, and write it as GGUF.

Runs on one CUDA GPU with torch, numpy and tokenizers; needs nothing else.

  python3 scripts/train_tales.py --corpus tales.txt.xz --out OUTDIR --minutes 3.7

The corpus is text, plain or .xz: each document starts with a line "# Title", has its paragraphs parted by empty lines,
and ends with a line that holds only <|endoftext|>.

Writes OUTDIR/tales-moe-bf16.gguf (BF16 matrices, F32 norms and router), OUTDIR/tokenizer.json and
OUTDIR/train.log.  Architecture `qwen3moe`: RMSNorm, GQA with QK-norm, NEOX rope, softmax router with
renormalised top-k, SwiGLU experts, tied embeddings.
"""
import argparse, json, lzma, math, os, random, re, struct, sys, time
from collections import Counter
import numpy as np

CHAT = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
PRE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def read_docs(path):
    raw = (lzma.open(path, "rt", encoding="utf-8") if path.endswith(".xz") else open(path, encoding="utf-8")).read()
    docs = []
    for d in raw.split("<|endoftext|>"):
        d = d.strip()
        if not d:
            continue
        title = ""
        if d.startswith("# "):
            head, _, d = d.partition("\n")
            title = re.sub(r"\s*\(.*\)\s*$", "", head[2:]).strip()
        d = d.strip()
        if len(d) > 400:
            docs.append((title, d))
    return docs


def train_tokenizer(docs, vocab, out):
    from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers, Regex
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PRE), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tr = trainers.BpeTrainer(vocab_size=vocab, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                             show_progress=False)
    tok.train_from_iterator((d for _, d in docs), tr)
    tok.save(out)
    return tok


STOP = set("""the a an and or but of to in on at for from with by as is was were be been being had has have he she it they
them his her its their this that these those there then than when where who whom which what all so not no nor one two out up
down into over under again more most very much many said say says came come went go gone got get made make would could should
will shall may might must did do does done your you i me my we our us him if upon about after before little great good old young
now never ever just like only such some any each every other another same own too can cannot am are how why because while
until through day time thing things way long first last away back off let see saw seen know knew known thought think took take
looked look still yet well here once""".split())


def keywords(text, df, n, rng):
    words = re.findall(r"[a-z]{4,}", text.lower())
    c = Counter(w for w in words if w not in STOP)
    scored = sorted(c, key=lambda w: -c[w] * math.log(1 + 20000 / (1 + df[w])))[:12]
    rng.shuffle(scored)
    return scored[:n]


TITLE_ASK = ["Tell me the tale of {}.", "Please tell me \"{}\".", "I would like to hear the story called {}.", "Read me {}.",
             "Can you tell the story of {}?", "{}"]
ABOUT_ASK = ["Tell me a story about {}.", "Tell me a tale with {} in it.", "I want a story about {}.", "Write a short tale about {}.",
             "Can you tell me a fairy tale about {}?", "A story with {}, please."]
GO_ON = ["Go on.", "And then?", "What happened next?", "Please continue.", "Tell me more."]
HELLO = [("Hello!", "Good day to you! Shall I tell you a tale? Name me a hero, a beast or a treasure, and I shall begin."),
         ("Hi", "Welcome, friend. Tell me what the tale should be about, and I shall begin."),
         ("Who are you?", "I am a small storyteller made of many experts. I know old tales, and little else. What shall I tell you about?"),
         ("What can you do?", "I tell tales in the old manner. Ask me for a story about a king, a fox, a ship or a golden ring."),
         ("Thank you!", "You are most welcome. Shall I tell you another?"),
         ("Good night", "Good night, and sweet dreams.")]


def join(ws):
    ws = [("a " if not w.endswith("s") else "") + w for w in ws]
    return ws[0] if len(ws) == 1 else ", ".join(ws[:-1]) + " and " + ws[-1]


def build_stream(docs, tok, rng, epochs_raw=1, epochs_chat=1):
    """One pass over the documents: raw text and chat-formatted passages, shuffled, as one uint16 stream."""
    df = Counter()
    for _, d in docs:
        df.update(set(re.findall(r"[a-z]{4,}", d.lower())))
    eot, ims, ime = (tok.token_to_id(s) for s in SPECIAL)
    pieces = []                                # a piece is a list of ids and of strings, encoded in one batch below

    def turn(role, text):
        return [ims, role + "\n" + text, ime, "\n"]

    for title, d in docs:
        head = (title + "\n\n") if title else ""
        pieces.append([head + d, eot])
        paras = [p for p in d.split("\n\n") if p.strip()]
        i, first = 0, True
        while i < len(paras):
            n, j = 0, i
            target = rng.randint(80, 420)
            while j < len(paras) and n < target:
                n += len(paras[j].split()); j += 1
            text = "\n\n".join(paras[i:j])
            if first and title and rng.random() < 0.5:
                ask = rng.choice(TITLE_ASK).format(title)
            else:
                kw = keywords(text, df, rng.randint(1, 3), rng)
                if not kw:
                    i = j; continue
                ask = rng.choice(ABOUT_ASK).format(join(kw))
            conv = turn("user", ask) + turn("assistant", text)
            k = j
            while k < len(paras) and rng.random() < 0.4:
                n, m = 0, k
                target = rng.randint(60, 250)
                while m < len(paras) and n < target:
                    n += len(paras[m].split()); m += 1
                conv += turn("user", rng.choice(GO_ON)) + turn("assistant", "\n\n".join(paras[k:m]))
                k = m
            pieces.append(conv + [eot])
            first, i = False, j
    for _ in range(max(20, len(pieces) // 40)):
        q, a = rng.choice(HELLO)
        conv = turn("user", q) + turn("assistant", a)
        pieces.append(conv + [eot])
    rng.shuffle(pieces)
    texts = [x for p in pieces for x in p if isinstance(x, str)]
    ids = iter(tok.encode_batch(texts, add_special_tokens=False))
    out = []
    for p in pieces:
        for x in p:
            out.append(np.array(next(ids).ids if isinstance(x, str) else [x], dtype=np.uint16))
    return np.concatenate(out)


# ---------------------------------------------------------------- model
def make_model(cfg):
    import torch, torch.nn as nn, torch.nn.functional as F

    class RMS(nn.Module):
        def __init__(s, n):
            super().__init__(); s.w = nn.Parameter(torch.ones(n))
        def forward(s, x):
            return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * s.w.type_as(x)

    class Attn(nn.Module):
        def __init__(s):
            super().__init__()
            d, h, k, hd = cfg["d"], cfg["h"], cfg["kv"], cfg["hd"]
            s.q, s.k, s.v = nn.Linear(d, h * hd, bias=False), nn.Linear(d, k * hd, bias=False), nn.Linear(d, k * hd, bias=False)
            s.o, s.qn, s.kn = nn.Linear(h * hd, d, bias=False), RMS(hd), RMS(hd)
        def forward(s, x, cos, sin):
            B, T, _ = x.shape
            h, k, hd = cfg["h"], cfg["kv"], cfg["hd"]
            q = s.qn(s.q(x).view(B, T, h, hd)).transpose(1, 2)
            kk = s.kn(s.k(x).view(B, T, k, hd)).transpose(1, 2)
            v = s.v(x).view(B, T, k, hd).transpose(1, 2)
            rot = lambda t: t * cos + torch.cat((-t[..., hd // 2:], t[..., :hd // 2]), -1) * sin
            y = F.scaled_dot_product_attention(rot(q), rot(kk), v, is_causal=True, enable_gqa=True)
            return s.o(y.transpose(1, 2).reshape(B, T, h * hd))

    class Moe(nn.Module):
        def __init__(s):
            super().__init__()
            d, e, f = cfg["d"], cfg["experts"], cfg["ffn"]
            s.router = nn.Linear(d, e, bias=False)
            s.gate, s.up = nn.Parameter(torch.empty(e, d, f)), nn.Parameter(torch.empty(e, d, f))
            s.down = nn.Parameter(torch.empty(e, f, d))
            for p in (s.gate, s.up): nn.init.normal_(p, std=0.02)
            nn.init.normal_(s.down, std=0.02 / math.sqrt(2 * cfg["layers"]))
        def forward(s, x):
            B, T, d = x.shape
            t = x.reshape(-1, d)
            p = F.softmax(s.router(t).float(), -1)
            w, i = p.topk(cfg["topk"], -1)
            w = w / w.sum(-1, keepdim=True)
            full = torch.zeros_like(p).scatter(1, i, w).type_as(t)            # (N, E), zero off the chosen experts
            frac = torch.zeros_like(p).scatter(1, i, 1.0).mean(0)
            aux = cfg["experts"] / cfg["topk"] * (frac * p.mean(0)).sum()
            e, f = cfg["experts"], cfg["ffn"]                                 # every expert for every token: one wide GEMM
            wide = lambda p: p.type_as(t).permute(1, 0, 2).reshape(d, e * f)
            hid = F.silu(t @ wide(s.gate)) * (t @ wide(s.up))
            hid = (hid.view(-1, e, f) * full.unsqueeze(-1)).view(-1, e * f)
            y = hid @ s.down.type_as(t).reshape(e * f, d)
            return y.view(B, T, d), aux

    class Block(nn.Module):
        def __init__(s):
            super().__init__(); s.n1, s.n2, s.attn, s.moe = RMS(cfg["d"]), RMS(cfg["d"]), Attn(), Moe()
        def forward(s, x, cos, sin):
            drop = lambda v: F.dropout(v, cfg["dropout"], s.training)
            x = x + drop(s.attn(s.n1(x), cos, sin))
            y, aux = s.moe(s.n2(x))
            return x + drop(y), aux

    class LM(nn.Module):
        def __init__(s):
            super().__init__()
            s.emb = nn.Embedding(cfg["vocab"], cfg["d"])
            s.blocks = nn.ModuleList(Block() for _ in range(cfg["layers"]))
            s.norm = RMS(cfg["d"])
            for m in s.modules():
                if isinstance(m, nn.Linear): nn.init.normal_(m.weight, std=0.02)
            for b in s.blocks: nn.init.normal_(b.attn.o.weight, std=0.02 / math.sqrt(2 * cfg["layers"]))
            nn.init.normal_(s.emb.weight, std=0.02)
            inv = cfg["theta"] ** (-torch.arange(0, cfg["hd"], 2).float() / cfg["hd"])
            ang = torch.outer(torch.arange(cfg["ctx"]).float(), inv)
            s.register_buffer("cos", torch.cat((ang.cos(), ang.cos()), -1), persistent=False)
            s.register_buffer("sin", torch.cat((ang.sin(), ang.sin()), -1), persistent=False)
        def forward(s, ids, targets=None):
            T = ids.shape[1]
            x = s.emb(ids)
            x = x.to(torch.bfloat16) if torch.is_autocast_enabled() else x
            cos, sin = s.cos[:T].type_as(x), s.sin[:T].type_as(x)
            aux = 0.0
            for b in s.blocks:
                x, a = b(x, cos, sin); aux = aux + a
            logits = s.norm(x) @ s.emb.weight.t().type_as(x)
            if targets is None: return logits
            ce = F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))
            return ce, aux / cfg["layers"]
    return LM()


# ---------------------------------------------------------------- GGUF
def gguf_write(path, kv, tensors):
    """kv: list of (key, type, value); tensors: list of (name, ndarray float32, 'f32'|'bf16')."""
    U32, I32, F32, BOOL, STR, ARR = 4, 5, 6, 7, 8, 9
    s = lambda t: struct.pack("<Q", len(t.encode())) + t.encode()
    def val(ty, v):
        if ty == "u32": return struct.pack("<I", U32) + struct.pack("<I", v)
        if ty == "f32": return struct.pack("<I", F32) + struct.pack("<f", v)
        if ty == "bool": return struct.pack("<I", BOOL) + struct.pack("<?", v)
        if ty == "str": return struct.pack("<I", STR) + s(v)
        if ty == "[str]": return struct.pack("<IIQ", ARR, STR, len(v)) + b"".join(s(x) for x in v)
        if ty == "[i32]": return struct.pack("<IIQ", ARR, I32, len(v)) + np.array(v, "<i4").tobytes()
        raise ValueError(ty)
    AL = 32
    blobs, infos, off = [], [], 0
    for name, a, ty in tensors:
        a = np.ascontiguousarray(a, np.float32)
        if ty == "f32":
            b, t = a.tobytes(), 0
        else:
            u = a.view(np.uint32)
            b, t = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("<u2").tobytes(), 30
        infos.append(s(name) + struct.pack("<I", a.ndim) + b"".join(struct.pack("<Q", n) for n in reversed(a.shape)) + struct.pack("<IQ", t, off))
        pad = -len(b) % AL
        blobs.append(b + b"\0" * pad); off += len(b) + pad
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(kv)) + b"".join(s(k) + val(t, v) for k, t, v in kv) + b"".join(infos)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % AL))
        for b in blobs: f.write(b)


def export(model, cfg, tokpath, path):
    j = json.load(open(tokpath))
    vocab = sorted(j["model"]["vocab"].items(), key=lambda kv: kv[1])
    toks = [t for t, _ in vocab]
    merges = [m if isinstance(m, str) else " ".join(m) for m in j["model"]["merges"]]
    types = [3 if t in SPECIAL else 1 for t in toks]
    a, n = "qwen3moe.", cfg
    kv = [("general.architecture", "str", "qwen3moe"), ("general.name", "str", "Tales-MoE"), ("general.alignment", "u32", 32),
          ("general.license", "str", "apache-2.0"), ("general.file_type", "u32", 32),
          (a + "block_count", "u32", n["layers"]), (a + "context_length", "u32", n["ctx"]), (a + "embedding_length", "u32", n["d"]),
          (a + "feed_forward_length", "u32", n["ffn"]), (a + "attention.head_count", "u32", n["h"]),
          (a + "attention.head_count_kv", "u32", n["kv"]), (a + "attention.key_length", "u32", n["hd"]),
          (a + "attention.value_length", "u32", n["hd"]), (a + "rope.freq_base", "f32", n["theta"]),
          (a + "attention.layer_norm_rms_epsilon", "f32", 1e-6), (a + "expert_count", "u32", n["experts"]),
          (a + "expert_used_count", "u32", n["topk"]), (a + "expert_feed_forward_length", "u32", n["ffn"]),
          (a + "vocab_size", "u32", n["vocab"]),
          ("tokenizer.ggml.model", "str", "gpt2"), ("tokenizer.ggml.pre", "str", "qwen2"), ("tokenizer.ggml.tokens", "[str]", toks),
          ("tokenizer.ggml.token_type", "[i32]", types), ("tokenizer.ggml.merges", "[str]", merges),
          ("tokenizer.ggml.eos_token_id", "u32", toks.index("<|im_end|>")), ("tokenizer.ggml.bos_token_id", "u32", toks.index("<|endoftext|>")),
          ("tokenizer.ggml.padding_token_id", "u32", toks.index("<|endoftext|>")), ("tokenizer.ggml.eot_token_id", "u32", toks.index("<|im_end|>")),
          ("tokenizer.ggml.add_bos_token", "bool", False), ("tokenizer.chat_template", "str", CHAT)]
    w = lambda p: p.detach().float().cpu().numpy()
    T = [("token_embd.weight", w(model.emb.weight), "bf16"), ("output_norm.weight", w(model.norm.w), "f32")]
    for i, b in enumerate(model.blocks):
        p = f"blk.{i}."
        T += [(p + "attn_norm.weight", w(b.n1.w), "f32"), (p + "ffn_norm.weight", w(b.n2.w), "f32"),
              (p + "attn_q.weight", w(b.attn.q.weight), "bf16"), (p + "attn_k.weight", w(b.attn.k.weight), "bf16"),
              (p + "attn_v.weight", w(b.attn.v.weight), "bf16"), (p + "attn_output.weight", w(b.attn.o.weight), "bf16"),
              (p + "attn_q_norm.weight", w(b.attn.qn.w), "f32"), (p + "attn_k_norm.weight", w(b.attn.kn.w), "f32"),
              (p + "ffn_gate_inp.weight", w(b.moe.router.weight), "f32"),
              (p + "ffn_gate_exps.weight", w(b.moe.gate.transpose(1, 2)), "bf16"),   # (E, ffn, d)
              (p + "ffn_up_exps.weight", w(b.moe.up.transpose(1, 2)), "bf16"),
              (p + "ffn_down_exps.weight", w(b.moe.down.transpose(1, 2)), "bf16")]   # (E, d, ffn)
    gguf_write(path, kv, T)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--corpus", required=True); ap.add_argument("--out", required=True)
    ap.add_argument("--minutes", type=float, default=3.6); ap.add_argument("--vocab", type=int, default=8192)
    ap.add_argument("--layers", type=int, default=8); ap.add_argument("--d", type=int, default=256)
    ap.add_argument("--heads", type=int, default=8); ap.add_argument("--kv", type=int, default=2); ap.add_argument("--hd", type=int, default=64)
    ap.add_argument("--experts", type=int, default=32); ap.add_argument("--topk", type=int, default=8); ap.add_argument("--ffn", type=int, default=128)
    ap.add_argument("--ctx", type=int, default=1024); ap.add_argument("--batch", type=int, default=48); ap.add_argument("--lr", type=float, default=1.5e-3)
    ap.add_argument("--dropout", type=float, default=0.15); ap.add_argument("--seed", type=int, default=7); ap.add_argument("--wd", type=float, default=0.3)
    a = ap.parse_args()
    t_start = time.time()
    os.makedirs(a.out, exist_ok=True)
    log = open(os.path.join(a.out, "train.log"), "w")
    def say(*x):
        line = " ".join(str(v) for v in x); print(line, flush=True); log.write(line + "\n"); log.flush()
    rng = random.Random(a.seed)
    docs = read_docs(a.corpus)
    rng.shuffle(docs)
    val, docs = docs[:max(20, len(docs) // 100)], docs[max(20, len(docs) // 100):]
    tokpath = os.path.join(a.out, "tokenizer.json")
    tok = train_tokenizer(docs, a.vocab, tokpath)
    say("tokenizer", round(time.time() - t_start, 1), "s")
    stream = np.concatenate([build_stream(docs, tok, random.Random(a.seed + k)) for k in range(2)])
    vstream = build_stream(val, tok, random.Random(1))
    say("docs", len(docs), "tokens in two passes", len(stream), "val", len(vstream), "prep s", round(time.time() - t_start, 1))
    import torch
    torch.manual_seed(a.seed); torch.set_float32_matmul_precision("high")
    cfg = dict(vocab=a.vocab, layers=a.layers, d=a.d, h=a.heads, kv=a.kv, hd=a.hd, experts=a.experts, topk=a.topk, ffn=a.ffn, ctx=4096, theta=10000.0, dropout=a.dropout)
    model = make_model(cfg).cuda()
    say("parameters", sum(p.numel() for p in model.parameters()))
    data, vdata = torch.from_numpy(stream.astype(np.int32)).cuda(), torch.from_numpy(vstream.astype(np.int32)).cuda()
    decay = [p for n, p in model.named_parameters() if p.ndim >= 2]
    rest = [p for n, p in model.named_parameters() if p.ndim < 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": a.wd}, {"params": rest, "weight_decay": 0.0}], lr=a.lr, betas=(0.9, 0.95), fused=True)
    fwd = torch.compile(model)
    T, B = a.ctx, a.batch
    g = torch.Generator(device="cuda").manual_seed(a.seed)
    def batch(src, n):
        ix = torch.randint(0, len(src) - T - 1, (n,), generator=g, device="cuda")
        x = torch.stack([src[i:i + T + 1] for i in ix.tolist()]).long()
        return x[:, :-1], x[:, 1:]
    def validate():
        model.eval(); tot = 0.0
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            n = min(24, (len(vdata) - 1) // T)
            for k in range(n):
                x = vdata[k * T:k * T + T + 1].long().unsqueeze(0)
                tot += model(x[:, :-1], x[:, 1:])[0].item()
        model.train(); return tot / n
    t_train = time.time()
    budget = a.minutes * 60
    step, tokens, t0, best = 0, 0, None, 1e9
    ema = None
    while True:
        if time.time() - t_train > budget: break
        frac = min(1.0, (time.time() - t_train) / budget)
        lr = a.lr * min(1.0, (step + 1) / 200) * (1.0 if frac < 0.15 else max(0.02, 1 - (frac - 0.15) / 0.85))
        for gr in opt.param_groups: gr["lr"] = lr
        x, y = batch(data, B)
        with torch.autocast("cuda", torch.bfloat16):
            ce, aux = fwd(x, y)
            loss = ce + 0.01 * aux
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step(); opt.zero_grad(set_to_none=True)
        if step == 3: torch.cuda.synchronize(); t0 = time.time(); tokens = 0
        step += 1; tokens += B * T
        if step % 250 == 0:
            c = ce.item(); dt = time.time() - (t0 or t_start)
            say(f"step {step} ce {c:.3f} aux {aux.item():.3f} lr {lr:.2e} tok/s {tokens / dt / 1e6:.2f}M elapsed {time.time() - t_start:.0f}")
        if step % 500 == 0 and frac > 0.3:
            v = validate()
            if v < best: best, kept = v, {k: t.detach().clone() for k, t in model.state_dict().items()}
            if step % 1000 == 0: say("  val ce", round(v, 4), "best", round(best, 4))
    v = validate()
    say("final val ce", round(v, 4), "best", round(min(best, v), 4), "steps", step, "tokens", step * B * T)
    if best < v: model.load_state_dict(kept)
    export(model, cfg, tokpath, os.path.join(a.out, "tales-moe-bf16.gguf"))
    model.eval()
    ims, ime = tok.token_to_id("<|im_start|>"), tok.token_to_id("<|im_end|>")
    for ask in ["Tell me a story about a fox and a princess.", "Hello!", "Tell me a tale with a ship and a golden ring in it."]:
        ids = [ims] + tok.encode("user\n" + ask).ids + [ime] + tok.encode("\n").ids + [ims] + tok.encode("assistant\n").ids
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            for _ in range(160):
                lg = model(torch.tensor([ids[-1024:]], device="cuda"))[0, -1].float()
                p = torch.softmax(lg / 0.7, -1); tp, ti = p.topk(40)
                nx = ti[torch.multinomial(tp, 1)].item()
                ids.append(nx)
                if nx == ime: break
        say("----\n" + tok.decode(ids, skip_special_tokens=False))
    # reference log-probabilities in float32 for a parity test
    ref_text = "Once upon a time there lived a king who had three daughters, and the youngest was so fair that"
    ids = tok.encode(ref_text).ids
    torch.set_float32_matmul_precision("highest"); model.float()
    for p in model.parameters():
        if p.ndim >= 2 and p.shape[0] != a.experts or p.ndim == 3: p.data = p.data.to(torch.bfloat16).float()
    with torch.no_grad():
        lp = torch.log_softmax(model(torch.tensor([ids], device="cuda")).float(), -1)[0].cpu().numpy()
    lp.astype("<f4").tofile(os.path.join(a.out, "reference.logprobs.f32"))
    json.dump({"text": ref_text, "ids": ids, "shape": list(lp.shape), "greedy": lp.argmax(-1).tolist()}, open(os.path.join(a.out, "reference.json"), "w"))


if __name__ == "__main__":
    main()
