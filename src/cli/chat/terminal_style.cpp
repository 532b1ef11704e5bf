#include "cli/chat/terminal_style.h"

#include "base/settings.h"
#include "cli/streams.h"
#include "text/utf8.h"

namespace strata::cli {

bool stdout_obeys() {
  const std::string terminal = environment("TERM");
  return stdout_is_terminal() && !terminal.empty() && terminal != "dumb";
}

bool stdout_is_styled() { return stdout_obeys() && environment("NO_COLOR").empty(); }

std::string dim(std::string_view text, bool styled) {
  return styled ? "\x1b[2m" + std::string(text) + "\x1b[0m" : std::string(text);
}

std::string without_controls(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const text::Utf8Step step = text::utf8_step(text);
    const uint32_t c = step.code_point;
    const bool character = step.kind == text::Utf8Kind::kCharacter;
    const bool control = character && c != '\n' && c != '\t' && (c < 0x20 || (c >= 0x7F && c < 0xA0));
    out += character && !control ? text.substr(0, step.length) : text::kReplacement;
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace strata::cli
