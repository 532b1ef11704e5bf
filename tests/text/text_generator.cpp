#include "text/text_generator.h"

#include <algorithm>

#include "text/pcre2_set.h"
#include "text/utf8.h"

namespace strata::text::test {

namespace {

// Code points at which blocks of some fifty scripts begin.
constexpr uint32_t kScripts[] = {
    0x41,   0x61,   0xC0,   0x100,  0x250,   0x370,   0x400,   0x531,   0x5D0,  0x620,  0x710,  0x780,  0x7C0,
    0x904,  0x985,  0xA05,  0xA85,  0xB05,   0xB83,   0xC05,   0xC85,   0xD05,  0xD85,  0xE01,  0xE81,  0xF40,
    0x1000, 0x10A0, 0x10D0, 0x1100, 0x1200,  0x13A0,  0x1401,  0x1680,  0x16A0, 0x1780, 0x1820, 0x1950, 0x1A00,
    0x1B05, 0x1C00, 0x1E00, 0x1F80, 0x2C00,  0x2D30,  0x3041,  0x30A1,  0x3105, 0x4E00, 0x9F80, 0xA000, 0xA4D0,
    0xAC00, 0xFB50, 0xFF10, 0xFF21, 0x10400, 0x10900, 0x12000, 0x1D400, 0x1F130};

constexpr const char* kWords[] = {"the",
                                  " the",
                                  " of",
                                  " and",
                                  " Hello",
                                  " world",
                                  "don't",
                                  " we'll",
                                  " they've",
                                  " I'M",
                                  " HelloWorld",
                                  " camelCase",
                                  " snake_case",
                                  " naïve",
                                  " Straße",
                                  " été",
                                  " über",
                                  " señor",
                                  " ČESKÝ",
                                  " привет",
                                  " мир",
                                  " ΑΒΓ",
                                  " γειά",
                                  "中文",
                                  "你好，世界。",
                                  "日本語",
                                  "カタカナ・テスト",
                                  "ひらがな",
                                  "한국어",
                                  " नमस्ते",
                                  " สวัสดี",
                                  " مرحبا",
                                  " שלום",
                                  " Tiếng Việt",
                                  " ǅungla",
                                  "ﬁnal",
                                  " ºC",
                                  " x²",
                                  " ½",
                                  " Ⅷ",
                                  " 三",
                                  "１２３",
                                  " 42",
                                  " 3.14159",
                                  " 1,000,000",
                                  " 2024-01-31",
                                  " $9.99",
                                  " 50%",
                                  " e-mail@example.com",
                                  " https://example.org/a?b=c&d=1#x"};

constexpr const char* kCode[] = {"for (int i = 0; i < n; ++i) {\n",
                                 "\treturn x;\n}\n",
                                 "    def f(self, *args):\n",
                                 "        pass\n\n",
                                 "#include <a.h>\r\n",
                                 "if a==b&&c!=d||!e{",
                                 "std::vector<std::pair<int,int>>",
                                 "<div class=\"x\">",
                                 "</div>\n",
                                 "/* ... */",
                                 "// x\n",
                                 "//\n/",
                                 "\\frac{a}{b}",
                                 "$x_{i}^2$",
                                 "{\"a\":[1,2,{}]}",
                                 "λx.x",
                                 "a->b",
                                 "x ? y : z;",
                                 "`ls -la | grep x`",
                                 "0xDEADBEEF",
                                 "\r\n\r\n",
                                 ".\n\n",
                                 "!!!\n",
                                 "---\n",
                                 "\n/\n",
                                 ";\n\n\n"};

// Composed, then decomposed.
constexpr const char* kForms[] = {
    "\u00E9",        "e\u0301",          "\u00C5", "A\u030A",       "\u212B",    "\u1E69",
    "s\u0323\u0307", "s\u0307\u0323",    "\u01D5", "U\u0308\u0304", "\uAC01",    "\u1100\u1161\u11A8",
    "\u304C",        "\u304B\u3099",     "\u0958", "\u0915\u093C",  "caf\u00E9", "cafe\u0301",
    "Vi\u1EC7t",     "Vie\u0323\u0302t", "\u2126", "\u03A9",        "\uFB01",    "\u0344"};

constexpr const char* kContractions[] = {"'s", "'T", "'rE", "'ve",     "'M",      "'lL",      "'d",
                                         "'",  "'x", "'r",  "'\u017F", "\u2019s", "'S\u0301", "''s"};

constexpr const char* kEmoji[] = {"\U0001F600",
                                  "\U0001F44D\U0001F3FD",
                                  "\U0001F469\u200D\U0001F469\u200D\U0001F467",
                                  "\U0001F1E9\U0001F1EA",
                                  "\u2764\uFE0F",
                                  "\U0001F3F4\U000E0067\U000E0062\U000E007F",
                                  "1\uFE0F\u20E3",
                                  "\U0001F937\u200D\u2642\uFE0F",
                                  "\u263A"};

// Also what looks like one, and U+2581, which SentencePiece writes for a space.
constexpr uint32_t kSpaces[] = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x20,   0x20,
                                0x20,   0x85,   0xA0,   0x1680, 0x180E, 0x2000, 0x2009, 0x200A,
                                0x200B, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF, 0x2581};

constexpr const char* kRunOf[] = {" ", " ", "\n",     "\t",     "0",   "7",  "a", "A",
                                  "=", ".", "\u4E00", "\u0301", " \n", "ab", "-"};

constexpr const char* kInvalid[] = {"\xED\xA0\x80", "\xED\xBF\xBF",     "\xFF",    "\xC3", "\xF0\x9F\x98", "\x80",
                                    "\xC0\x80",     "\xF4\x90\x80\x80", "\xE2\x96"};

}  // namespace

TextGenerator::TextGenerator(uint64_t seed, std::vector<std::string> snippets)
    : random_(seed), snippets_(std::move(snippets)), assigned_(characters_matching("\\P{Cn}")) {}

std::string TextGenerator::next() {
  std::string text;
  for (uint64_t n = 1 + random_.below(16); n > 0; --n) append_some(text);
  return text;
}

std::string TextGenerator::next_with_invalid_bytes() {
  std::string text;
  for (uint64_t n = 1 + random_.below(8); n > 0; --n) {
    append_some(text);
    append_one(kInvalid, text);
  }
  return text;
}

bool TextGenerator::all_assigned(std::string_view text) const {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Kind::kCharacter || !assigned_[step.code_point]) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

void TextGenerator::append_some(std::string& text) {
  switch (random_.below(16)) {
    case 0:
      append_one(kContractions, text);
      return;
    case 1:
    case 2:
      for (uint64_t n = 1 + random_.below(5); n > 0; --n) append_utf8(kSpaces[random_.below(std::size(kSpaces))], text);
      return;
    case 3:
      append_range(0x300, 0x70, text);
      return;  // marks
    case 4:
      append_range(0x21, 0x5E, text);
      return;  // ASCII signs, digits, letters
    case 5:
      append_range(0x00, 0x20, text);
      return;  // controls
    case 6:
      append_range(0x1F300, 0x300, text);
      return;  // emoji and pictographs
    case 7:
      append_range(0, 0x110000, text);
      return;  // anything
    case 8:
      append_one(kWords, text);
      return;
    case 9:
      append_one(kCode, text);
      return;
    case 10:
      append_one(kForms, text);
      return;
    case 11:
      append_one(kEmoji, text);
      return;
    case 12:
      append_run(text);
      return;
    case 13:
      append_snippet(text);
      return;
    default:
      append_word(text);
  }
}

void TextGenerator::append_word(std::string& text) {
  const uint32_t script = kScripts[random_.below(std::size(kScripts))];
  if (random_.below(3) == 0) text += ' ';
  for (uint64_t n = 1 + random_.below(5); n > 0; --n) append_range(script, 0x50, text);
}

void TextGenerator::append_run(std::string& text) {
  const std::string unit = kRunOf[random_.below(std::size(kRunOf))];
  const uint64_t longest = random_.below(8) == 0 ? 200 : 24;
  for (uint64_t n = 1 + random_.below(longest); n > 0; --n) text += unit;
}

// A snippet, or what is left of one that is cut short at some character.
void TextGenerator::append_snippet(std::string& text) {
  if (snippets_.empty()) return append_word(text);
  const std::string& snippet = snippets_[random_.below(snippets_.size())];
  size_t size = snippet.size();
  if (random_.below(4) == 0) {
    size = random_.below(size);
    while (size > 0 && (static_cast<unsigned char>(snippet[size]) & 0xC0) == 0x80) --size;
  }
  text.append(snippet, 0, size);
}

void TextGenerator::append_range(uint32_t first, uint32_t n, std::string& text) {
  const auto c = first + static_cast<uint32_t>(random_.below(n));
  if (assigned_[c]) append_utf8(c, text);
}

}  // namespace strata::text::test
