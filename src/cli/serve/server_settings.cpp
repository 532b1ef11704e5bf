#include "cli/serve/server_settings.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/bytes.h"
#include "base/format.h"
#include "cli/answer_settings.h"
#include "cli/help.h"
#include "cli/model_choice.h"
#include "cli/sampling.h"
#include "cli/streams.h"
#include "cli/template_choice.h"

namespace strata::cli {
namespace {

constexpr uint64_t kMaxKeyFileBytes = kMiB;

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t first = std::min(text.find_first_not_of(' ', begin), end);
    const size_t last = text.find_last_not_of(' ', end - 1) + 1;
    if (end > first) items.push_back(text.substr(first, last - first));
    begin = end + 1;
  }
  return items;
}

Result<std::vector<std::string>> keys_of(const Settings& settings) {
  std::vector<std::string> keys;
  if (const std::string& given = settings.text(Key::kApiKey); !given.empty()) {
    ASSIGN_OR_RETURN(keys, server::http::parse_keys(given, ',', "--api-key"));
  }
  const std::string& path = settings.text(Key::kApiKeyFile);
  if (path.empty()) return keys;
  ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxKeyFileBytes));
  ASSIGN_OR_RETURN(const std::vector<std::string> more,
                   server::http::parse_keys(text, '\n', "--api-key-file " + path_text(path)));
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

Result<server::ServerOptions> server_options(const Settings& settings) {
  server::ServerOptions options;
  options.address = {.host = settings.text(Key::kHost), .port = static_cast<uint16_t>(settings.integer(Key::kPort))};
  ASSIGN_OR_RETURN(options.access.keys, keys_of(settings));
  for (const std::string& name : list_of(settings.text(Key::kAllowHost))) {
    RETURN_IF_ERROR(server::http::check_host_rule(name, "--allow-host"));
  }
  // A name that it listens on is one that it has.
  options.access.hosts = list_of(lowered(settings.text(Key::kAllowHost) + "," + settings.text(Key::kHost)));
  options.access.origins = list_of(settings.text(Key::kCorsOrigin));
  for (const std::string& origin : options.access.origins) {
    RETURN_IF_ERROR(server::http::check_origin_rule(origin, "--cors-origin"));
  }
  options.access.max_body_bytes = static_cast<uint64_t>(settings.integer(Key::kMaxBodyMib)) * kMiB;
  options.service.max_queue = settings.integer(Key::kMaxQueue);
  options.service.request_timeout_s = settings.integer(Key::kRequestTimeoutS);
  options.service.version = version_text();
  options.allow_open = settings.on(Key::kAllowNoKey);
  return options;
}

Result<server::LoadedModel> load_served(const Settings& settings, const std::string& path,
                                        const engine::EngineConfig& config, Stats& stats,
                                        std::atomic<int64_t>& bytes) {
  server::LoadedModel loaded;
  ASSIGN_OR_RETURN(loaded.file, open_model(path));
  uint64_t total = 0;
  for (const gguf::TensorInfo& tensor : loaded.file->tensors()) total += tensor.bytes;
  bytes.store(static_cast<int64_t>(total));
  ASSIGN_OR_RETURN(loaded.tokenizer, text::Tokenizer::load(*loaded.file));
  ASSIGN_OR_RETURN(loaded.chat_template, load_template(settings, *loaded.file, *loaded.tokenizer));
  const uint32_t seed = seed_of(settings);
  ASSIGN_OR_RETURN(text::SamplerParams sampling, sampler_params(settings, *loaded.file, *loaded.tokenizer, seed));
  ASSIGN_OR_RETURN(loaded.engine, open_engine(settings, *loaded.file, config, stats));
  const std::string& alias = settings.text(Key::kAlias);
  loaded.served.id = alias.empty() ? model_name(path) : alias;
  loaded.served.tokenizer = loaded.tokenizer.get();
  loaded.served.chat_template = loaded.chat_template.get();
  loaded.served.context = loaded.engine->context();
  loaded.served.created = std::time(nullptr);
  loaded.served.fingerprint = format("{}-{}", version_text(), loaded.served.id);
  std::replace(loaded.served.fingerprint.begin(), loaded.served.fingerprint.end(), ' ', '-');
  loaded.served.sampling = std::move(sampling);
  loaded.served.repeat_stop_tokens = settings.integer(Key::kRepeatStopTokens);
  server::find_styles(loaded.served);
  return loaded;
}

std::string model_name(const std::string& path) {
  const std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  std::string name = file.has_filename() ? file.filename().string() : file.parent_path().filename().string();
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  // "-00001-of-00003"
  constexpr size_t kPart = 15;
  if (name.size() > kPart && name.compare(name.size() - kPart, 6, "-00001") == 0 &&
      name.compare(name.size() - kPart + 6, 4, "-of-") == 0) {
    name.resize(name.size() - kPart);
  }
  return printable(name);
}

}  // namespace strata::cli
