// Token ids of the reference tokenizer: node reference.mjs CACHE VOCABULARY TEXTS IDS
// CACHE is where packages.sh installed the packages, TEXTS a JSON array of strings. IDS gets, for each string, the
// number of its ids and the ids, as 32-bit little-endian integers.
//
// The vocabulary's tokenizer.json is what is compared, so these differences between it and the library, or between it
// and a model file, are taken out:
// * Normalisation to NFC is dropped: model files have none.
// * \s of JavaScript counts U+FEFF and not U+0085; in the published expressions it is the property White_Space.
// * The library puts ASCII classes in the place of (?i:...), which Node 20 can't read. Without regard to case, U+017F
//   is an s.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [cache, vocabulary, textsPath, idsPath] = process.argv.slice(2);
const packages = `${cache}/node_modules/@lenml`;
const { TokenizerLoader } = await import(pathToFileURL(`${packages}/tokenizers/dist/main.mjs`));
const read = (name) => JSON.parse(readFileSync(`${packages}/tokenizer-${vocabulary}/models/${name}`, "utf8"));

const tokenizerJSON = read("tokenizer.json");
if (tokenizerJSON.normalizer?.type === "NFC") tokenizerJSON.normalizer = null;
const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const sameContractions = "(?:'(?:[sS\u017F]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))";
for (const { pattern } of tokenizerJSON.pre_tokenizer?.pretokenizers ?? []) {
  if (!pattern?.Regex) continue;
  pattern.Regex = pattern.Regex.replaceAll(contractions, sameContractions)
    .replaceAll("\\s", "\\p{White_Space}")
    .replaceAll("\\S", "\\P{White_Space}");
}

const tokenizer = TokenizerLoader.fromPreTrained({ tokenizerJSON, tokenizerConfig: read("tokenizer_config.json") });
const out = [];
for (const text of JSON.parse(readFileSync(textsPath, "utf8"))) {
  const ids = tokenizer.encode(text, { add_special_tokens: false });
  out.push(ids.length, ...ids);
}
writeFileSync(idsPath, Buffer.from(Int32Array.from(out).buffer));
