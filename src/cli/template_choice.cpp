#include "cli/template_choice.h"

#include "base/format.h"
#include "cli/streams.h"
#include "text/builtin_templates/builtin.h"

namespace strata::cli {
namespace {

// A template is a page or two; the largest that are known have some 30 KiB.
constexpr uint64_t kMaxTemplateBytes = 4 * kMiB;

Error of_flag(const std::string& given, const Error& error) {
  return {error.code, format("--{} {}: {}", setting(Key::kChatTemplate).name, path_text(given), error.message)};
}

Result<std::string> read_source(const std::string& given) {
  if (text::find_builtin(given) != nullptr) return given;
  Result<std::string> source = read_text(given, kMaxTemplateBytes);
  if (source.ok() || source.error().code != ErrorCode::kNotFound) return source;
  return Error{ErrorCode::kNotFound, "there is neither a file nor a built-in template of this name"};
}

}  // namespace

Result<std::unique_ptr<text::ChatTemplate>> load_template(const Settings& settings, const gguf::Model& model,
                                                          const text::Tokenizer& tokenizer) {
  const std::string& given = settings.text(Key::kChatTemplate);
  if (given.empty()) return text::ChatTemplate::load(model, tokenizer);
  Result<std::string> source = read_source(given);
  if (!source.ok()) return of_flag(given, source.error());
  auto loaded = text::ChatTemplate::load(model, tokenizer, std::move(source).value());
  if (!loaded.ok()) return of_flag(given, loaded.error());
  return loaded;
}

}  // namespace strata::cli
