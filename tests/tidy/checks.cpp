#include "tidy/checks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

namespace strata::tidy {
namespace {

constexpr size_t kColumnsMax = 120;
constexpr uint64_t kTotalBytesMax = 50'000'000;
// The checks and their controls have to spell what they forbid.
constexpr const char* kOwnFolder = "tests/tidy/";

// Which floors a floor may include, besides itself. docs/HACKING.md draws the same arrows.
const std::map<std::string, std::set<std::string>>& floors() {
  static const std::map<std::string, std::set<std::string>> allowed = {
      {"base", {}},
      {"quant", {"base"}},
      {"gguf", {"quant", "base"}},
      {"kernels", {"quant", "base"}},
      {"device", {"kernels", "quant", "base"}},
      {"experts", {"device", "gguf", "quant", "kernels", "base"}},
      {"model", {"experts", "device", "gguf", "kernels", "quant", "base"}},
      {"text", {"gguf", "quant", "base"}},
      {"engine", {"model", "experts", "text", "device", "gguf", "kernels", "quant", "base"}},
      {"server", {"engine", "text", "model", "experts", "device", "gguf", "kernels", "quant", "base"}},
      {"cli", {"server", "engine", "text", "model", "experts", "device", "gguf", "kernels", "quant", "base"}},
  };
  return allowed;
}

struct Ban {
  std::string_view text;
  bool call;                // only where a parenthesis follows
  std::string_view scope;   // paths it holds for
  std::string_view exempt;  // except those; empty for none
  std::string_view instead;
};

constexpr std::array<Ban, 17> kBans = {{
    {"getenv", true, "src/", "src/base/settings.cpp", "a setting, or environment() of base/settings.h"},
    {"secure_getenv", true, "src/", "src/base/settings.cpp", "a setting, or environment() of base/settings.h"},
    {"cout", false, "src/", "src/cli/", "a sink of the caller; stdout belongs to the command line"},
    {"printf", true, "src/", "src/cli/", "a sink of the caller; stdout belongs to the command line"},
    {"vprintf", true, "src/", "src/cli/", "a sink of the caller; stdout belongs to the command line"},
    {"puts", true, "src/", "src/cli/", "a sink of the caller; stdout belongs to the command line"},
    {"putchar", true, "src/", "src/cli/", "a sink of the caller; stdout belongs to the command line"},
    {"stdout", false, "src/", "src/cli/", "a sink of the caller; stdout belongs to the command line"},
    {"rand", true, "", "", "base::Random, which has a seed"},
    {"srand", true, "", "", "base::Random, which has a seed"},
    {"rand_r", true, "", "", "base::Random, which has a seed"},
    {"random_device", false, "src/", "src/base/random.cpp", "base::Random, which has a seed"},
    {"std::regex", false, "", "", "PCRE2 with match limits"},
    {"std::regex_match", false, "", "", "PCRE2 with match limits"},
    {"std::regex_search", false, "", "", "PCRE2 with match limits"},
    {"<regex>", false, "", "", "PCRE2 with match limits"},
    {"using namespace std;", false, "", "", "the names you need"},
}};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Where `word` stands in `line` as a word of its own; npos when nowhere.
size_t find_word(std::string_view line, std::string_view word, size_t from = 0) {
  for (size_t at = line.find(word, from); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool left = at == 0 || !is_word(word.front()) || !is_word(line[at - 1]);
    const bool right = end == line.size() || !is_word(word.back()) || !is_word(line[end]);
    if (left && right) return at;
  }
  return std::string_view::npos;
}

// A member of some object that happens to have the name is not meant.
bool is_member(std::string_view line, size_t at) {
  return at > 0 && (line[at - 1] == '.' || (at > 1 && line.substr(at - 2, 2) == "->"));
}

bool uses(std::string_view line, const Ban& ban) {
  for (size_t at = find_word(line, ban.text); at != std::string_view::npos; at = find_word(line, ban.text, at + 1)) {
    const size_t next = line.find_first_not_of(' ', at + ban.text.size());
    const bool called = next != std::string_view::npos && line[next] == '(';
    if ((called || !ban.call) && !is_member(line, at)) return true;
  }
  return false;
}

bool applies(const Ban& ban, const std::string& path) {
  return path.starts_with(ban.scope) && (ban.exempt.empty() || !path.starts_with(ban.exempt));
}

// "floor" of "src/floor/..."; empty for other paths.
std::string floor_of(const std::string& path) {
  if (!has_prefix(path, "src/")) return "";
  const size_t end = path.find('/', 4);
  return end == std::string::npos ? "" : path.substr(4, end - 4);
}

// What stands in the quotes of an #include line; empty for other lines.
std::string quoted_include(const std::string& line) {
  const size_t hash = line.find_first_not_of(" \t");
  if (hash == std::string::npos || line[hash] != '#') return "";
  const size_t word = line.find_first_not_of(" \t", hash + 1);
  if (word == std::string::npos || line.compare(word, 7, "include") != 0) return "";
  const size_t open = line.find('"', word);
  if (open == std::string::npos) return "";
  return line.substr(open + 1, line.find('"', open + 1) - open - 1);
}

// Tables of numbers, or one row of a table per line, may be wide.
bool is_table(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.find("table") != std::string::npos || name.find("codebook") != std::string::npos;
}

size_t columns(std::string_view line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// `relative` as seen from the folder of `file`, without "." and "..".
std::string beside(const std::string& file, const std::string& relative) {
  std::vector<std::string> parts;
  std::istringstream in(file.substr(0, file.rfind('/') + 1) + relative);
  for (std::string part; std::getline(in, part, '/');) {
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
  }
  std::string path;
  for (const std::string& part : parts) path += (path.empty() ? "" : "/") + part;
  return path;
}

// Every word of a CMake file, taken as a path beside it.
constexpr std::string_view kHere = "${CMAKE_CURRENT_SOURCE_DIR}/";
void collect_listed(const SourceFile& cmake, std::set<std::string>& listed) {
  for (std::string line : lines_of(cmake.text)) {
    line.resize(std::min(line.find('#'), line.size()));
    for (char& c : line) c = c == '(' || c == ')' || c == '"' || c == ';' ? ' ' : c;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word.starts_with(kHere)) word.erase(0, kHere.size());
      listed.insert(beside(cmake.path, word));
    }
  }
}

bool is_built_source(const std::string& path) {
  if (!path.ends_with(".cpp") && !path.ends_with(".cu")) return false;
  return has_prefix(path, "src/") || has_prefix(path, "tests/") || has_prefix(path, "bench/");
}

}  // namespace

std::vector<Finding> check_includes(const SourceFile& file) {
  std::vector<Finding> findings;
  const std::string from = floor_of(file.path);
  if (from.empty() || !is_code(file.path)) return findings;
  const auto allowed = floors().find(from);
  if (allowed == floors().end()) return {{file.path, 0, "src/" + from + " is not a floor of the house"}};
  int number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    const std::string include = quoted_include(line);
    if (include.empty()) continue;
    const std::string to = include.substr(0, include.find('/'));
    if (!floors().contains(to) || to == include) {
      findings.push_back({file.path, number, "#include \"" + include + "\" is not written from src/"});
    } else if (to != from && !allowed->second.contains(to)) {
      findings.push_back({file.path, number, from + " may not include " + to + ": " + include});
    }
  }
  return findings;
}

std::vector<Finding> check_banned(const SourceFile& file) {
  std::vector<Finding> findings;
  if (!is_code(file.path)) return findings;
  int number = 0;
  for (const std::string& line : lines_of(code_only(file.text))) {
    ++number;
    for (const Ban& ban : kBans) {
      if (!applies(ban, file.path) || !uses(line, ban)) continue;
      findings.push_back({file.path, number, std::string(ban.text) + "; use " + std::string(ban.instead)});
    }
  }
  return findings;
}

std::vector<Finding> check_marks(const SourceFile& file) {
  std::vector<Finding> findings;
  if (is_data(file.path) || has_prefix(file.path, kOwnFolder)) return findings;
  int number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    for (const char* mark : {"TODO", "FIXME", "XXX"}) {
      if (find_word(line, mark) == std::string::npos) continue;
      findings.push_back({file.path, number, std::string(mark) + ": finish it or leave it out"});
    }
  }
  return findings;
}

std::vector<Finding> check_layout(const SourceFile& file) {
  std::vector<Finding> findings;
  if (is_data(file.path)) return findings;
  const bool narrow = is_code(file.path) && !is_table(file.path);
  int number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    if (line.find('\t') != std::string::npos) findings.push_back({file.path, number, "tab"});
    if (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
      findings.push_back({file.path, number, "white space at the end of the line"});
    }
    if (narrow && columns(line) > kColumnsMax) {
      findings.push_back({file.path, number, std::to_string(columns(line)) + " columns; the limit is 120"});
    }
  }
  return findings;
}

std::vector<Finding> check_foreign_paths(const SourceFile& file) {
  std::vector<Finding> findings;
  if (has_prefix(file.path, kOwnFolder)) return findings;
  int number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    for (const char* path : {"/work/", "shared/", "/home/", "/Users/"}) {
      // As a path starts: not in the middle of a longer one, but also after ../ or ./
      const size_t at = line.find(path);
      if (at == std::string::npos) continue;
      const bool inside = at > 0 && (is_word(line[at - 1]) || (line[at - 1] == '/' && (at < 2 || line[at - 2] != '.')));
      if (!inside) findings.push_back({file.path, number, std::string("path of another machine: ") + path});
    }
  }
  return findings;
}

std::vector<Finding> check_listed(const std::vector<SourceFile>& files) {
  std::set<std::string> listed;
  for (const SourceFile& file : files) {
    if (file.path.ends_with("CMakeLists.txt")) collect_listed(file, listed);
  }
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    if (!is_built_source(file.path) || listed.contains(file.path)) continue;
    findings.push_back({file.path, 0, "no CMakeLists.txt lists it"});
  }
  return findings;
}

std::vector<Finding> check_exceptions_off(const std::string& compile_commands, const std::string& root) {
  const nlohmann::json commands = nlohmann::json::parse(compile_commands, nullptr, false);
  if (!commands.is_array()) return {{"compile_commands.json", 0, "is not the JSON array that CMake writes"}};
  std::vector<Finding> findings;
  for (const nlohmann::json& command : commands) {
    const std::string file = command.value("file", "");
    if (!has_prefix(file, root + "/") || !file.ends_with(".cpp")) continue;
    const std::string path = file.substr(root.size() + 1);
    const std::set<std::string> without = {"kernels", "experts", "engine"};
    if (!without.contains(floor_of(path))) continue;
    const std::string line = command.value("command", "");
    const size_t off = line.rfind(" -fno-exceptions");
    const size_t on = line.rfind(" -fexceptions");
    if (off == std::string::npos || (on != std::string::npos && on > off)) {
      findings.push_back({path, 0, "compiled with exceptions; give NOEXCEPT to its strata_library()"});
    }
  }
  return findings;
}

std::vector<Finding> check_total_size(const std::vector<SourceFile>& files) {
  uint64_t total = 0;
  for (const SourceFile& file : files) total += file.bytes;
  if (total <= kTotalBytesMax) return {};
  return {{".", 0,
           "the files of the repository add up to " + std::to_string(total) + " bytes; the limit is " +
               std::to_string(kTotalBytesMax)}};
}

}  // namespace strata::tidy
