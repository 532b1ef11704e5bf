// render.mjs CACHE BUILTINS OUTPUT: renders conversations with the models' templates in CACHE and those of BUILTINS, a
// JSON object {name: source}; writes a JSON line for each: name, template, context, and expected, null where rendering
// fails.
//
// Where the oracle is not Jinja2, it is mended or not asked:
//  - its strip(), lstrip() and rstrip() take no characters; they get Python's meaning below.
//  - it writes numbers as JavaScript does (1, 1e-7 for 1.0, 1e-07): the conversations have none of those.
//  - it refuses none|trim, which gives "None" in Jinja2; it glues lists and objects to strings, which fails in Jinja2;
//    it writes none as nothing. Traits keep such contexts away from the templates where it would show.
import { createRequire } from "node:module";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { conversations } from "./conversations.mjs";

const [cache, builtinsPath, outputPath] = process.argv.slice(2);
const require = createRequire(join(cache, "npm", "package.json"));
const { Template, Environment, Interpreter, parse, tokenize } = require("@huggingface/jinja");

// 2026-01-05 09:07:00, a Monday, wherever the clock of a template is read.
const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...args) {
    super(...(args.length === 0 ? [2026, 0, 5, 9, 7, 0] : args));
  }
};

function mendStrip() {
  const sample = new Interpreter(new Environment()).run(parse(tokenize("x")));
  const prototype = Object.getPrototypeOf(sample);
  const original = Object.getOwnPropertyDescriptor(prototype, "builtins").get;
  const strip = (text, set, left, right) => {
    let characters = Array.from(text);
    while (left && characters.length && set.includes(characters[0])) characters = characters.slice(1);
    while (right && characters.length && set.includes(characters.at(-1))) characters = characters.slice(0, -1);
    return characters.join("");
  };
  Object.defineProperty(prototype, "builtins", {
    get() {
      const builtins = new Map(original.call(this));
      for (const [name, left, right] of [["strip", true, true], ["lstrip", true, false], ["rstrip", false, true]]) {
        const plain = builtins.get(name);
        const mended = Object.create(plain);
        mended.value = (args, scope) =>
          args.length === 0
            ? plain.value(args, scope)
            : new sample.constructor(strip(this.value, Array.from(args[0].value), left, right));
        builtins.set(name, mended);
      }
      return builtins;
    },
  });
}

const traits = {
  deepseek_v3: { textArguments: true, nullWithCalls: true, nullContent: true },
  gemma3: { nullContent: true, parts: true },
  llama3: {},
  llama3_1: {},
  "builtin llama3": {},
};
const usualTraits = { nullContent: true };

const tokenText = (token) => (typeof token === "object" ? (token?.content ?? "") : token);

function modelTemplates() {
  const out = [];
  for (const file of readdirSync(join(cache, "templates")).sort()) {
    const config = JSON.parse(readFileSync(join(cache, "templates", file), "utf8"));
    const given = config.chat_template ?? [];
    const named = typeof given === "string" ? [{ name: "default", template: given }] : given;
    const tokens = { bos_token: tokenText(config.bos_token), eos_token: tokenText(config.eos_token) };
    for (const { name, template } of named) {
      const model = file.replace(".json", "");
      out.push({ name: name === "default" ? model : `${model} ${name}`, model, template, tokens });
    }
  }
  return out;
}

function builtinTemplates() {
  const tokens = { bos_token: "<s>", eos_token: "</s>" };
  return Object.entries(JSON.parse(readFileSync(builtinsPath, "utf8"))).map(([name, template]) => ({
    name: `builtin ${name}`,
    model: `builtin ${name}`,
    template,
    tokens,
  }));
}

function render(template, context) {
  try {
    return template.render(context);
  } catch {
    return null;
  }
}

mendStrip();
const lines = [];
for (const { name, model, template, tokens } of [...modelTemplates(), ...builtinTemplates()]) {
  const parsed = new Template(template);
  for (const conversation of conversations(traits[model] ?? usualTraits)) {
    const context = { ...tokens, ...conversation };
    lines.push(JSON.stringify({ name, template, context, expected: render(parsed, context) }));
  }
}
writeFileSync(outputPath, lines.join("\n") + "\n");
