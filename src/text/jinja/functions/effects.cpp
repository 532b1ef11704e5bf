// raise_exception and strftime_now.
#include <ctime>

#include "text/jinja/functions/function.h"
#include "text/jinja/notation.h"
#include "text/jinja/runtime.h"

namespace strata::text::jinja {
namespace {

constexpr size_t kMaxFormatBytes = 1000;
constexpr std::string_view kConversions = "aAbBcdHIjmMpSUwWxXyYe%";

// One conversion of strftime(); `unpadded` is the GNU flag '-'.
void append_conversion(std::string& out, char conversion, bool unpadded, const std::tm& time) {
  const char pattern[] = {'%', conversion, '\0'};
  const char unpadded_pattern[] = {'%', '-', conversion, '\0'};
  char buffer[128];
  const size_t n = std::strftime(buffer, sizeof buffer, unpadded ? unpadded_pattern : pattern, &time);
  out.append(buffer, n);
}

}  // namespace

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  const Bound bound("raise_exception()", arguments, {"message"}, 1);
  constexpr size_t kMaxMessageBytes = 1000;
  throw Failure{"the template refuses: " + printable(to_text(runtime.heap(), bound[0]).bytes(), kMaxMessageBytes), {}};
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Bound bound("strftime_now()", arguments, {"format"}, 1);
  const std::string_view format = bound.text(0).bytes();
  if (format.size() > kMaxFormatBytes) fail("strftime_now(): a format of {} bytes is too long", format.size());
  const std::tm now = runtime.now();
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const bool unpadded = format.substr(i + 1).starts_with('-');
    i += unpadded ? 2 : 1;
    if (i >= format.size() || kConversions.find(format[i]) == std::string_view::npos) {
      fail("strftime_now(): the format '{}' has an unknown conversion", printable(format, kMaxNameBytes));
    }
    append_conversion(out, format[i], unpadded, now);
  }
  return runtime.heap().text(MarkedText(std::move(out), bound.text(0).has_content()));
}

}  // namespace strata::text::jinja
