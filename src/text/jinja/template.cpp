#include "text/jinja/template.h"

#include <new>

#include "text/jinja/from_json.h"
#include "text/jinja/functions/function.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

namespace strata::text::jinja {
namespace {

Error error_of(const std::string& name, const Failure& failure) {
  if (failure.at.line == 0) return {ErrorCode::kBadInput, format("{}: {}", name, failure.message)};
  return {ErrorCode::kBadInput,
          format("{}, line {}, column {}: {}", name, failure.at.line, failure.at.column, failure.message)};
}

Error memory_error(const std::string& name) {
  return {ErrorCode::kNoMemory, format("{}: out of memory", name)};
}

}  // namespace

struct Template::Parts {
  std::string name;
  NamePool names;
  Block statements;
};

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  ::localtime_r(&now, &out);
  return out;
}

Template::Template(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Template::~Template() = default;

Result<std::unique_ptr<const Template>> Template::parse(std::string_view source, std::string name) {
  try {
    if (source.size() > kMaxSourceBytes) {
      return Error{ErrorCode::kBadInput, format("{}: a template of {} is too large; at most {} are allowed", name,
                                                format_bytes(source.size()), format_bytes(kMaxSourceBytes))};
    }
    auto parts = std::make_unique<Parts>();
    parts->name = name;
    parts->statements = parse_template(replace_invalid_utf8(source), parts->names);
    return std::unique_ptr<const Template>(new Template(std::move(parts)));
  } catch (const Failure& failure) {
    return error_of(name, failure);
  } catch (const std::bad_alloc&) {
    return memory_error(name);
  }
}

Result<MarkedText> Template::render(const std::vector<Variable>& variables, const RenderOptions& options) const {
  try {
    Runtime runtime(options.limits, options.now ? options.now : local_time);
    add_functions(runtime);
    for (const Variable& variable : variables) {
      runtime.set_global(variable.name, from_json(runtime.heap(), variable, options));
    }
    execute_block(runtime, parts_->statements);
    return runtime.take_output();
  } catch (const Failure& failure) {
    return error_of(parts_->name, failure);
  } catch (const std::bad_alloc&) {
    return memory_error(parts_->name);
  }
}

}  // namespace strata::text::jinja
