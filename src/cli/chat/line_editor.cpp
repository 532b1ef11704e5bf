#include "cli/chat/line_editor.h"

#include <clocale>
#include <cstdio>

#include <histedit.h>
#include <termios.h>
#include <unistd.h>

namespace strata::cli {
namespace {

// While it lives, keys come one by one, and Ctrl-C is a key like others and no signal. The library sees to that as
// well, but only after it has shown the prompt: of someone who is faster, the kernel would edit the line, or end the
// program.
class KeysOnly {
 public:
  KeysOnly() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios mode = before_;
    mode.c_lflag &= ~static_cast<tcflag_t>(ISIG | ICANON | ECHO);
    changed_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) == 0;
  }
  ~KeysOnly() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  KeysOnly(const KeysOnly&) = delete;
  KeysOnly& operator=(const KeysOnly&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

constexpr int kHistoryLines = 1000;

struct CloseEditor {
  void operator()(EditLine* editor) const { ::el_end(editor); }
};
struct CloseHistory {
  void operator()(History* lines) const { ::history_end(lines); }
};

}  // namespace

struct LineEditor::Parts {
  std::unique_ptr<History, CloseHistory> lines;  // outlives the editor, which refers to it
  std::unique_ptr<EditLine, CloseEditor> editor;
  std::string prompt;
  bool interrupted = false;

  static Parts& of(EditLine* editor) {
    void* parts = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &parts);
    return *static_cast<Parts*>(parts);
  }
  static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
  static unsigned char take_interrupt(EditLine* editor, int) {
    of(editor).interrupted = true;
    return CC_EOF;
  }
  // What the keys do: those of emacs, as everywhere, and Ctrl-C as a key.
  void set_keys() {
    EditLine* el = editor.get();
    ::el_set(el, EL_EDITOR, "emacs");
    ::el_set(el, EL_ADDFN, "leave-line", "Leave the line", &take_interrupt);
    ::el_set(el, EL_BIND, "^C", "leave-line", nullptr);
    ::el_set(el, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    for (const auto& [key, command] : {std::pair("\\e[3~", "ed-delete-next-char"), std::pair("\\e[H", "ed-move-to-beg"),
                                       std::pair("\\e[F", "ed-move-to-end"), std::pair("\\e[1~", "ed-move-to-beg"),
                                       std::pair("\\e[4~", "ed-move-to-end")}) {
      ::el_set(el, EL_BIND, key, command, nullptr);
    }
    // Or the library turns the signals of keys on again.
    ::el_set(el, EL_SETTY, "-d", "-isig", nullptr);
  }
};

LineEditor::LineEditor(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LineEditor::~LineEditor() = default;

Result<std::unique_ptr<LineEditor>> LineEditor::create() {
  // The library takes its characters from the locale.
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
  auto parts = std::make_unique<Parts>();
  parts->lines.reset(::history_init());
  parts->editor.reset(::el_init("strata", stdin, stdout, stderr));
  if (parts->lines == nullptr || parts->editor == nullptr) {
    return Error{ErrorCode::kIo, "cannot edit lines on this terminal; give the prompt with -p, or by a pipe"};
  }
  HistEvent event;
  ::history(parts->lines.get(), &event, H_SETSIZE, kHistoryLines);
  ::history(parts->lines.get(), &event, H_SETUNIQUE, 1);
  EditLine* editor = parts->editor.get();
  ::el_set(editor, EL_CLIENTDATA, parts.get());
  ::el_set(editor, EL_PROMPT, &Parts::show_prompt);
  ::el_set(editor, EL_HIST, ::history, parts->lines.get());
  ::el_set(editor, EL_SIGNAL, 1);  // follows the size of the terminal, and gives it back when a signal ends the program
  parts->set_keys();
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(parts)));
}

TypedLine LineEditor::read(const std::string& prompt) {
  parts_->prompt = prompt;
  parts_->interrupted = false;
  int n = 0;
  const KeysOnly keys_only;
  const char* line = ::el_gets(parts_->editor.get(), &n);
  if (parts_->interrupted) return {.kind = TypedLine::kInterrupt, .text = {}};
  if (line == nullptr || n <= 0) return {.kind = TypedLine::kEnd, .text = {}};
  std::string text = line;
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  HistEvent event;
  if (text.find_first_not_of(" \t") != std::string::npos) {
    ::history(parts_->lines.get(), &event, H_ENTER, text.c_str());
  }
  return {.kind = TypedLine::kText, .text = std::move(text)};
}

}  // namespace strata::cli
