#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <CLI/CLI.hpp>

#include "base/format.h"

namespace strata::cli {
namespace {

constexpr char kHandleMark = '@';

bool takes(const Command& command, const Setting& row) { return (row.scope & (command.scope | kScopeGlobal)) != 0; }

const Setting* find_flag(const Command& command, std::string_view name) {
  const Setting* row = find_setting(name);
  return row != nullptr && takes(command, *row) ? row : nullptr;
}

const Setting* find_short_flag(const Command& command, char letter) {
  for (const Setting& row : all_settings()) {
    if (letter != '\0' && short_flag(row.key) == letter && takes(command, row)) return &row;
  }
  return nullptr;
}

// Brings arguments into the one form --name=VALUE before the parser sees them, with a handle, "@3", in place of every
// value and word. The parser finds meanings in texts, which prompts must not have: "[a,b]" is a list to it and "{}"
// nothing; and of a switch's optional value it cannot say that only on and off are meant.
class Normalizer {
 public:
  Normalizer(const Command& command, Words args) : command_(command), rest_(args) {}

  Result<std::vector<std::string>> normalize() {
    while (!rest_.empty()) {
      const std::string arg = next();
      if (arg == "--") {
        while (!rest_.empty()) out_.push_back(handle(next()));
      } else if (arg.starts_with("--")) {
        RETURN_IF_ERROR(take_long(arg));
      } else if (arg.size() > 1 && arg[0] == '-') {
        RETURN_IF_ERROR(take_short(arg));
      } else {
        out_.push_back(handle(arg));
      }
    }
    return std::move(out_);
  }

  // The text behind a handle; nullopt for what is none.
  std::optional<std::string> text(std::string_view handle) const {
    size_t index = 0;
    if (handle.empty() || handle[0] != kHandleMark) return std::nullopt;
    const auto [end, error] = std::from_chars(handle.data() + 1, handle.data() + handle.size(), index);
    if (error != std::errc() || end != handle.data() + handle.size() || index >= texts_.size()) return std::nullopt;
    return texts_[index];
  }

 private:
  const std::string& next() {
    const std::string& arg = rest_.front();
    rest_ = rest_.subspan(1);
    return arg;
  }
  std::string handle(std::string text) {
    texts_.push_back(std::move(text));
    return kHandleMark + std::to_string(texts_.size() - 1);
  }
  void push(const Setting& row, const std::string& value) {
    out_.push_back(format("--{}={}", row.name, handle(value)));
  }

  Status take_long(const std::string& arg) {
    const size_t equals = arg.find('=');
    const std::string flag = arg.substr(0, equals);
    const bool has_value = equals != std::string::npos;
    if (const Setting* row = find_flag(command_, flag.substr(2))) {
      if (!has_value) return take_value(*row, flag);
      push(*row, arg.substr(equals + 1));
      return {};
    }
    const Setting* row = flag.starts_with("--no-") ? find_flag(command_, flag.substr(5)) : nullptr;
    if (row == nullptr || row->type != SettingType::kSwitch) {
      out_.push_back(flag);  // --help, or unknown to the parser too
      return {};
    }
    if (has_value) return Error{ErrorCode::kBadInput, format("{} takes no value", flag)};
    push(*row, "off");
    return {};
  }

  Status take_short(const std::string& arg) {
    const Setting* row = find_short_flag(command_, arg[1]);
    if (row == nullptr) {
      out_.push_back(arg);
      return {};
    }
    if (arg.size() == 2) return take_value(*row, arg);
    push(*row, arg.substr(2));
    return {};
  }

  Status take_value(const Setting& row, const std::string& flag) {
    if (row.type == SettingType::kSwitch) {
      const bool given = !rest_.empty() && (rest_.front() == "on" || rest_.front() == "off");
      push(row, given ? next() : "on");
    } else {
      if (rest_.empty()) return Error{ErrorCode::kBadInput, format("{} needs a value", flag)};
      push(row, next());
    }
    return {};
  }

  const Command& command_;
  Words rest_;
  std::vector<std::string> out_;
  std::vector<std::string> texts_;
};

Error unknown_flag(const Command& command, const std::string& flag) {
  return {ErrorCode::kBadInput,
          format("unknown flag '{}'; 'strata {} --help' lists those there are, and text that starts with - follows --",
                 printable(flag), command.name)};
}

// The parser of one command's flags.
struct Parser {
  CLI::App app;
  std::vector<std::pair<const Setting*, CLI::Option*>> flags;
  CLI::Option* help = nullptr;

  explicit Parser(const Command& command) {
    const auto keep = [](const CLI::results_t&) { return true; };
    app.set_help_flag();
    app.allow_extras();  // words; and unknown flags, which are no handles
    help = app.add_flag("-h,--help");
    for (const Setting& row : all_settings()) {
      if (!takes(command, row)) continue;
      CLI::Option* option = app.add_option(std::string("--") + row.name, keep);
      option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      flags.emplace_back(&row, option);
    }
  }
};

Result<Arguments> collect(const Command& command, const Parser& parser, const Normalizer& normalizer) {
  Arguments out;
  out.help = parser.help->count() > 0;
  for (const std::string& extra : parser.app.remaining()) {
    const auto text = normalizer.text(extra);
    if (!text) return unknown_flag(command, extra);
    out.words.push_back(*text);
  }
  for (const auto& [row, option] : parser.flags) {
    if (option->count() == 0) continue;
    const std::string flag = std::string("--") + row->name;
    if (option->count() > 1) return Error{ErrorCode::kBadInput, format("{} is given twice", flag)};
    const auto text = normalizer.text(option->results().front());
    ASSERT(text.has_value());
    RETURN_IF_ERROR(out.settings.set(row->key, *text, flag));
  }
  return out;
}

}  // namespace

char short_flag(Key key) {
  switch (key) {
    case Key::kPrompt:
    case Key::kNPrompt: return 'p';
    case Key::kPredict:
    case Key::kNGen: return 'n';
    case Key::kNThreads: return 't';
    case Key::kRepetitions: return 'r';
    default: return '\0';
  }
}

Result<Arguments> parse_arguments(const Command& command, Words args) {
  Normalizer normalizer(command, args);
  ASSIGN_OR_RETURN(std::vector<std::string> normal, normalizer.normalize());
  std::reverse(normal.begin(), normal.end());  // the parser takes them from the back
  try {
    Parser parser(command);
    parser.app.parse(std::move(normal));
    return collect(command, parser, normalizer);
  } catch (const CLI::Error& error) {
    return Error{ErrorCode::kBadInput, format("{}; see 'strata {} --help'", error.what(), command.name)};
  }
}

}  // namespace strata::cli
