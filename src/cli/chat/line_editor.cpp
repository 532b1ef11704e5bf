#include "cli/chat/line_editor.h"

#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <utility>

#include <histedit.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/ending.h"
#include "cli/chat/key_reader.h"
#include "cli/chat/terminal_style.h"
#include "cli/streams.h"
#include "text/utf8.h"

namespace strata::cli {
namespace {

// Asks the terminal to mark pasted text, or no longer to.
constexpr std::string_view kMarkPastes = "\x1b[?2004h", kDontMarkPastes = "\x1b[?2004l";

// What a signal that ends the program has to put back. One editor reads at a time.
termios g_mode_before;
bool g_marks_pastes = false;

void restore_terminal() {
  static_cast<void>(::tcsetattr(STDIN_FILENO, TCSANOW, &g_mode_before));
  if (g_marks_pastes) static_cast<void>(!::write(STDOUT_FILENO, kDontMarkPastes.data(), kDontMarkPastes.size()));
}

// While it lives, keys come one by one, and Ctrl-C is a key like others and no signal. The library sees to that as
// well, but only after it has shown the prompt: of someone who is faster, the kernel would edit the line, or end the
// program.
class KeysOnly {
 public:
  KeysOnly() {
    if (::tcgetattr(STDIN_FILENO, &g_mode_before) != 0) return;
    g_marks_pastes = stdout_obeys();
    set_restore(restore_terminal);
    termios mode = g_mode_before;
    mode.c_lflag &= ~static_cast<tcflag_t>(ISIG | ICANON | ECHO);
    mode.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR);  // in pasted text, \r\n is one line end
    changed_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) == 0;
    if (g_marks_pastes) static_cast<void>(write_stdout(kMarkPastes));
  }
  ~KeysOnly() {
    if (g_marks_pastes) static_cast<void>(write_stdout(kDontMarkPastes));
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &g_mode_before);
    set_restore(nullptr);
  }
  KeysOnly(const KeysOnly&) = delete;
  KeysOnly& operator=(const KeysOnly&) = delete;

 private:
  bool changed_ = false;
};

std::atomic<bool> g_resized{false};

// While it lives, a new size of the terminal interrupts the wait for a key.
class WatchedSize {
 public:
  WatchedSize() {
    struct sigaction action {};
    action.sa_handler = [](int) { g_resized.store(true, std::memory_order_relaxed); };
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGWINCH, &action, &before_);
  }
  ~WatchedSize() { ::sigaction(SIGWINCH, &before_, nullptr); }
  WatchedSize(const WatchedSize&) = delete;
  WatchedSize& operator=(const WatchedSize&) = delete;

 private:
  struct sigaction before_ {};
};

// The library takes wide characters, which are code points here.
std::wstring wide_text(std::string_view text) {
  std::wstring wide;
  for (size_t at = 0; at < text.size();) {
    const text::Utf8Char c = text::utf8_char(text.data() + at);
    wide += static_cast<wchar_t>(c.code_point);
    at += c.length;
  }
  return wide;
}

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
  KeyReader keys{[this] { return next_byte(); }};
  std::string prompt;
  bool interrupted = false;
  std::string refusal;       // why the line can't be taken; empty for none
  int n_typed_before = 0;    // bytes that came before the terminal gave single keys, and are not read yet

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
  static unsigned char take_paste(EditLine* editor, int) {
    Parts& parts = of(editor);
    const Result<std::string> pasted = parts.keys.read_paste();
    if (!pasted.ok()) {
      parts.refusal = pasted.error().message;
      return CC_EOF;
    }
    if (pasted->empty()) return CC_NORM;
    return ::el_winsertstr(editor, wide_text(*pasted).c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }
  static int give_key(EditLine* editor, wchar_t* key) {
    const int32_t c = of(editor).keys.next();
    *key = static_cast<wchar_t>(c == KeyReader::kEnd ? 0 : c);
    return c == KeyReader::kEnd ? 0 : 1;
  }

  int next_byte() {
    for (;;) {
      if (g_resized.exchange(false, std::memory_order_relaxed)) {
        ::el_resize(editor.get());
        ::el_set(editor.get(), EL_REFRESH);
      }
      unsigned char byte = 0;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return -1;
      if (n_typed_before == 0) return byte;
      n_typed_before--;
      // The kernel keeps a Ctrl-D that it took for the end of a file as a zero byte.
      return byte == 0 ? 'D' - '@' : byte;
    }
  }

  // What the keys do: those of emacs, as everywhere, and Ctrl-C as a key.
  void set_keys() {
    EditLine* el = editor.get();
    ::el_set(el, EL_EDITOR, "emacs");
    ::el_set(el, EL_ADDFN, "leave-line", "Leave the line", &take_interrupt);
    ::el_set(el, EL_BIND, "^C", "leave-line", nullptr);
    ::el_set(el, EL_ADDFN, "paste", "Insert pasted text", &take_paste);
    ::el_set(el, EL_BIND, "\\e[200~", "paste", nullptr);
    ::el_set(el, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    for (const auto& [key, command] : {std::pair("\\e[3~", "ed-delete-next-char"), std::pair("\\e[H", "ed-move-to-beg"),
                                       std::pair("\\e[F", "ed-move-to-end"), std::pair("\\e[1~", "ed-move-to-beg"),
                                       std::pair("\\e[4~", "ed-move-to-end"), std::pair("\\e[7~", "ed-move-to-beg"),
                                       std::pair("\\e[8~", "ed-move-to-end")}) {
      ::el_set(el, EL_BIND, key, command, nullptr);
    }
    ::el_set(el, EL_GETCFN, &give_key);
    // Or the library turns these on again.
    ::el_set(el, EL_SETTY, "-d", "-isig", "-icrnl", "-inlcr", nullptr);
  }

  // The line that the library has read, without its end.
  TypedLine taken(const char* line, int n) {
    const bool invalid = keys.take_invalid();
    if (interrupted) return {.kind = TypedLine::kInterrupt, .text = {}};
    if (!refusal.empty()) return {.kind = TypedLine::kRefused, .text = std::exchange(refusal, "")};
    if (line == nullptr || n <= 0) return {.kind = TypedLine::kEnd, .text = {}};
    std::string text(line, static_cast<size_t>(n));
    while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
    if (invalid && text.find(text::kReplacement) != std::string::npos) {
      return {.kind = TypedLine::kRefused,
              .text = "the line is not valid UTF-8, it was not sent; set the terminal to UTF-8"};
    }
    return {.kind = TypedLine::kText, .text = std::move(text)};
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
  parts->set_keys();
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(parts)));
}

TypedLine LineEditor::read(const std::string& prompt) {
  parts_->prompt = prompt;
  parts_->interrupted = false;
  int n = 0;
  const KeysOnly keys_only;
  const WatchedSize size;
  if (::ioctl(STDIN_FILENO, FIONREAD, &parts_->n_typed_before) != 0) parts_->n_typed_before = 0;
  const char* line = ::el_gets(parts_->editor.get(), &n);
  TypedLine typed = parts_->taken(line, n);
  if (typed.text.find_first_not_of(" \t\n") != std::string::npos && typed.kind == TypedLine::kText) {
    HistEvent event;
    ::history(parts_->lines.get(), &event, H_ENTER, typed.text.c_str());
  }
  return typed;
}

}  // namespace strata::cli
