// Jinja templates: parsed once, rendered with data that came as JSON. Semantics are those of Jinja2 with the settings
// of Hugging Face's chat templates (trim_blocks, lstrip_blocks, no autoescape, loop controls, generation blocks).
//
// A template sees its data, the functions of functions/ and nothing else. Templates and data are both hostile: every
// cost has a limit (limits.h). Nothing throws across this border.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/jinja/limits.h"
#include "text/jinja/marked_text.h"

namespace strata::text::jinja {

// A variable of the template. The JSON must be there while it renders.
struct Variable {
  std::string name;
  const nlohmann::ordered_json* value;
  bool is_content = false;  // whether its strings, and the keys of its objects, are marked as content
};

struct RenderOptions {
  Limits limits;
  std::function<std::tm()> now;  // for strftime_now; local_time() where empty
  // Whether this string inside a variable counts as text of the template although the variable is content: `key` is its
  // key in the object around it. None where empty.
  std::function<bool(std::string_view key, std::string_view text)> is_trusted;
};

std::tm local_time();

// Immutable; any thread.
class Template {
 public:
  // `name` stands in messages: "NAME, line 3, column 7: ...". kBadInput for everything that is wrong with the source.
  static Result<std::unique_ptr<const Template>> parse(std::string_view source, std::string name);
  ~Template();
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;

  // kBadInput when the template fails, refuses the data or costs too much; kNoMemory.
  Result<MarkedText> render(const std::vector<Variable>& variables, const RenderOptions& options) const;

 private:
  struct Parts;
  explicit Template(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace strata::text::jinja
