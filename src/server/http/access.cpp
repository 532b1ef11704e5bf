#include "server/http/access.h"

#include <algorithm>

#include <arpa/inet.h>

#include "base/format.h"

namespace strata::server::http {
namespace {

// A preflight names some fields; more than this is not meant seriously.
constexpr size_t kMaxPreflightBytes = 1024;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(), lower);
  return small;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool has(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The name in "name:port" or "[::1]:port", in small letters; nullopt for what is neither.
std::optional<std::string> host_name(std::string_view host) {
  size_t end = host.find(':');
  if (host.starts_with('[')) {
    const size_t bracket = host.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    end = bracket + 1 < host.size() ? bracket + 1 : std::string_view::npos;
    if (end != std::string_view::npos && host[end] != ':') return std::nullopt;
  }
  if (end != std::string_view::npos && !is_port(host.substr(end + 1))) return std::nullopt;
  std::string name = lowered(host.substr(0, end));
  if (name.size() > 1 && name.ends_with('.')) name.pop_back();  // a fully qualified name
  return name.empty() ? std::nullopt : std::optional(std::move(name));
}

bool is_address(const std::string& name) {
  in6_addr address;
  if (name.size() > 2 && name.front() == '[') {
    return ::inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), &address) == 1;
  }
  return ::inet_pton(AF_INET, name.c_str(), &address) == 1;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
  });
}

// A host with or without a port, as browsers write it.
bool is_small_host(std::string_view text) {
  const std::optional<std::string> name = host_name(text);
  if (!name || text != lowered(text)) return false;
  if (text.size() > name->size() + 1) {
    const std::string_view port = text.substr(name->size() + 1);
    if (port.starts_with('0') || std::stoi(std::string(port)) > UINT16_MAX) return false;
  }
  return is_name(*name) || is_address(*name);
}

bool is_scheme(std::string_view text) {
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z' && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '.' || c == '-';
  });
}

bool known_host(const AccessRules& rules, const std::string& name) {
  return name == "localhost" || is_address(name) || has(rules.hosts, name);
}

// Nothing when the client names the host as one that this is.
std::optional<Refusal> check_host(const RequestHead& head, const AccessRules& rules) {
  if (!head.host) {
    if (head.version < 11) return std::nullopt;  // no browser leaves it out
    return Refusal{400, "missing_host", "the request has no Host field, which HTTP/1.1 wants"};
  }
  const std::optional<std::string> name = host_name(*head.host);
  if (!name) return Refusal{400, "bad_host", "the Host field is not a name or address with a port"};
  if (!rules.keys.empty() || known_host(rules, *name)) return std::nullopt;
  return Refusal{403, "unknown_host",
                 format("this server does not know itself as '{}'; use localhost or its address, or start it with "
                        "--allow-host {}", printable(*name), printable(*name))};
}

// Whether the page comes from this very server.
bool is_own_origin(const RequestHead& head) {
  return head.host && (*head.origin == "http://" + *head.host || *head.origin == "https://" + *head.host);
}

std::optional<Refusal> check_origin(const RequestHead& head, const AccessRules& rules) {
  if (!head.origin || is_own_origin(head) || shared_origin(rules, head.origin)) return std::nullopt;
  return Refusal{403, "foreign_origin",
                 format("pages of {} may not ask this server; start it with --cors-origin to allow them",
                        printable(*head.origin))};
}

std::optional<Refusal> check_key(const RequestHead& head, const AccessRules& rules) {
  if (rules.keys.empty()) return std::nullopt;
  std::string_view given;
  constexpr std::string_view kBearer = "bearer ";
  if (head.authorization && lowered(head.authorization->substr(0, kBearer.size())) == kBearer) {
    given = trimmed(std::string_view(*head.authorization).substr(kBearer.size()));
  } else if (head.api_key) {
    given = trimmed(*head.api_key);
  }
  if (is_key(given, rules.keys)) return std::nullopt;
  return Refusal{401, "invalid_api_key",
                 given.empty() ? "an API key is needed; send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
                               : "the API key is not one of this server's",
                 {{"WWW-Authenticate", "Bearer"}}};
}

std::string methods_of(const Route& route) {
  return std::string(route.get ? "GET, HEAD, " : "") + (route.post ? "POST, " : "") + "OPTIONS";
}

bool takes_method(const Route& route, std::string_view method) {
  if (method == "GET" || method == "HEAD") return route.get;
  return method == "OPTIONS" || (method == "POST" && route.post);
}

// application/json, with or without parameters. Simple requests of web pages can't say so.
bool is_json_type(const std::optional<std::string>& type) {
  if (!type) return false;
  const std::string name = lowered(trimmed(std::string_view(*type).substr(0, type->find(';'))));
  return name == "application/json" || (name.starts_with("application/") && name.ends_with("+json"));
}

std::optional<Refusal> check_body(const RequestHead& head, const AccessRules& rules) {
  if (head.content_length.value_or(0) > rules.max_body_bytes) {
    return Refusal{413, "body_too_large",
                   format("the body has {} bytes, and {} are allowed (--max-body-mib)", *head.content_length,
                          rules.max_body_bytes)};
  }
  if (head.has_body() && !is_json_type(head.content_type)) {
    return Refusal{415, "unsupported_media_type", "the body has to be JSON; send 'Content-Type: application/json'"};
  }
  return std::nullopt;
}

std::optional<Refusal> check_form(const RequestHead& head) {
  if (head.ambiguous) {
    return Refusal{400, "ambiguous_request",
                   "the request has several Host or Content-Length fields, or a Content-Length beside chunks"};
  }
  if (head.unknown_coding) {
    return Refusal{501, "unknown_transfer_coding", "the only Transfer-Encoding that is understood is 'chunked'"};
  }
  if (!head.target.starts_with('/')) {
    return Refusal{400, "bad_target", "the request's target has to be a path that begins with a slash"};
  }
  return std::nullopt;
}

bool is_field_list(std::string_view text) {
  return text.size() <= kMaxPreflightBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                  c == ',' || c == ' ';
         });
}

}  // namespace

std::optional<std::string> shared_origin(const AccessRules& rules, const std::optional<std::string>& origin) {
  if (!origin) return std::nullopt;
  if (has(rules.origins, "*")) return "*";
  return has(rules.origins, *origin) ? origin : std::nullopt;
}

std::optional<Refusal> check_head(const RequestHead& head, const std::optional<Route>& route,
                                  const AccessRules& rules) {
  if (auto refusal = check_form(head)) return refusal;
  if (auto refusal = check_host(head, rules)) return refusal;
  if (auto refusal = check_origin(head, rules)) return refusal;
  // Browsers send preflights without a key. Whoever has none learns no more than that.
  const bool open = route && (route->is_public || head.method == "OPTIONS");
  if (!open) {
    if (auto refusal = check_key(head, rules)) return refusal;
  }
  if (!route) return Refusal{404, "not_found", format("there is nothing under {}", printable(head.path()))};
  if (!takes_method(*route, head.method)) {
    return Refusal{405, "method_not_allowed",
                   format("{} does not take {}; it takes {}", printable(head.path()), printable(head.method),
                          methods_of(*route)),
                   {{"Allow", methods_of(*route)}}};
  }
  return check_body(head, rules);
}

Answer preflight_answer(const RequestHead& head, const Route& route, const AccessRules& rules) {
  Answer answer{.status = 204, .content_type = "", .fields = {{"Allow", methods_of(route)}}};
  if (!head.preflight_method || !shared_origin(rules, head.origin)) return answer;
  answer.fields.push_back({"Access-Control-Allow-Methods", methods_of(route)});
  answer.fields.push_back({"Access-Control-Max-Age", "600"});
  if (head.preflight_fields && is_field_list(*head.preflight_fields)) {
    answer.fields.push_back({"Access-Control-Allow-Headers", *head.preflight_fields});
  }
  return answer;
}

bool is_key(std::string_view given, const std::vector<std::string>& keys) {
  bool found = false;
  for (const std::string& key : keys) {
    // Every byte of what was given is looked at, whatever the others say; an empty key does not exist.
    size_t different = given.size() ^ key.size();
    for (size_t i = 0; i < given.size(); i++) {
      different |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]);
    }
    found |= different == 0;
  }
  return found;
}

Result<std::vector<std::string>> parse_keys(std::string_view text, char separator, std::string_view origin) {
  std::vector<std::string> keys;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    const std::string_view key = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (key.empty()) continue;
    if (std::any_of(key.begin(), key.end(), [](char c) { return c <= ' ' || c > '~'; })) {
      return Error{ErrorCode::kBadInput,
                   format("{}: API key {} has a character that is not printable ASCII", origin, keys.size() + 1)};
    }
    keys.emplace_back(key);
  }
  if (keys.empty()) return Error{ErrorCode::kBadInput, format("{} holds no API key", origin)};
  return keys;
}

Status check_origin_rule(std::string_view origin, std::string_view flag) {
  const size_t colon = origin.find("://");
  const std::string_view scheme = origin.substr(0, std::min(colon, origin.size()));
  const std::string_view rest = colon == std::string_view::npos ? std::string_view() : origin.substr(colon + 3);
  const bool has_usual_port =
      (scheme == "http" && rest.ends_with(":80")) || (scheme == "https" && rest.ends_with(":443"));
  if (origin == "*" || (is_scheme(scheme) && is_small_host(rest) && !has_usual_port)) return {};
  return Error{ErrorCode::kBadInput,
               format("{}: '{}' is no origin of a page; browsers send scheme and host in small letters, and the port "
                      "where it is not the usual one, as https://app.example or http://localhost:3000 (* for all)",
                      flag, printable(origin))};
}

Status check_host_rule(const std::string& host, std::string_view flag) {
  if ((is_name(host) && !host.ends_with('.')) || is_address(host)) return {};
  return Error{ErrorCode::kBadInput,
               format("{}: '{}' is no name of a host, as box.local: without scheme, port and path", flag,
                      printable(host))};
}

bool within_json_depth(std::string_view text, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') i++;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth) return false;
    } else if (c == ']' || c == '}') {
      depth--;
    }
  }
  return true;
}

}  // namespace strata::server::http
