package filesafe

import "strings"

// unknownMIME is the type of files without an extension or with an unknown one.
const unknownMIME = "application/octet-stream"

// mimeOf returns the media type of a file by its name. A name such as .env has no extension.
func mimeOf(name string) string {
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 {
		return unknownMIME
	}

	if typ, ok := mimeTypes[name[dot+1:]]; ok {
		return typ
	}

	if typ, ok := mimeTypes[strings.ToLower(name[dot+1:])]; ok {
		return typ
	}

	return unknownMIME
}

// mimeTypes is fixed, so that responses do not depend on the machine, whose table may map .ts to Qt
// translations. Types registered with IANA take precedence. No type has a charset, because the
// contents are unknown.
var mimeTypes = map[string]string{
	// text
	"adoc": "text/asciidoc", "css": "text/css", "csv": "text/csv", "diff": "text/x-diff", "htm": "text/html",
	"html": "text/html", "ics": "text/calendar", "ini": "text/plain", "conf": "text/plain", "log": "text/plain",
	"markdown": "text/markdown", "md": "text/markdown", "mdx": "text/markdown", "patch": "text/x-diff",
	"rst": "text/x-rst", "srt": "application/x-subrip", "text": "text/plain", "tsv": "text/tab-separated-values",
	"txt": "text/plain", "vcf": "text/vcard", "vtt": "text/vtt",
	// data
	"avro": "application/avro", "geojson": "application/geo+json", "ipynb": "application/x-ipynb+json",
	"json": "application/json", "json5": "application/json5", "jsonc": "application/json", "jsonl": "application/jsonl",
	"jsonld": "application/ld+json", "map": "application/json", "ndjson": "application/x-ndjson",
	"parquet": "application/vnd.apache.parquet", "proto": "text/x-protobuf", "sqlite": "application/vnd.sqlite3",
	"toml": "application/toml", "webmanifest": "application/manifest+json", "xml": "application/xml",
	"yaml": "application/yaml", "yml": "application/yaml",
	// programs
	"bash": "text/x-shellscript", "bat": "text/x-msdos-batch", "c": "text/x-c", "cc": "text/x-c++", "cjs": "text/javascript",
	"clj": "text/x-clojure", "cpp": "text/x-c++", "cs": "text/x-csharp", "dart": "text/x-dart", "erl": "text/x-erlang",
	"ex": "text/x-elixir", "exs": "text/x-elixir", "go": "text/x-go", "graphql": "application/graphql", "h": "text/x-c",
	"hpp": "text/x-c++", "hs": "text/x-haskell", "java": "text/x-java", "jl": "text/x-julia", "js": "text/javascript",
	"jsx": "text/javascript", "kt": "text/x-kotlin", "less": "text/x-less", "lua": "text/x-lua", "mjs": "text/javascript",
	"mts": "text/typescript", "cts": "text/typescript", "php": "text/x-php", "pl": "text/x-perl", "ps1": "text/x-powershell",
	"py": "text/x-python", "pyi": "text/x-python", "r": "text/x-r", "rb": "text/x-ruby", "rs": "text/x-rust",
	"sass": "text/x-sass", "scala": "text/x-scala", "scss": "text/x-scss", "sh": "text/x-shellscript",
	"sql": "application/sql", "svelte": "text/html", "swift": "text/x-swift", "tex": "application/x-tex",
	"ts": "text/typescript", "tsx": "text/typescript", "vue": "text/html", "wasm": "application/wasm",
	"zig": "text/x-zig", "zsh": "text/x-shellscript",
	// pictures
	"apng": "image/apng", "avif": "image/avif", "bmp": "image/bmp", "gif": "image/gif", "heic": "image/heic",
	"heif": "image/heif", "ico": "image/vnd.microsoft.icon", "jpeg": "image/jpeg", "jpg": "image/jpeg", "jxl": "image/jxl",
	"png": "image/png", "psd": "image/vnd.adobe.photoshop", "svg": "image/svg+xml", "tif": "image/tiff",
	"tiff": "image/tiff", "webp": "image/webp",
	// sound and film
	"aac": "audio/aac", "avi": "video/vnd.avi", "flac": "audio/flac", "m4a": "audio/mp4", "m4v": "video/mp4",
	"mid": "audio/midi", "mkv": "video/matroska", "mov": "video/quicktime", "mp3": "audio/mpeg", "mp4": "video/mp4",
	"mpeg": "video/mpeg", "mpg": "video/mpeg", "oga": "audio/ogg", "ogg": "audio/ogg", "ogv": "video/ogg",
	"opus": "audio/ogg", "wav": "audio/wav", "weba": "audio/webm", "webm": "video/webm",
	// fonts
	"otf": "font/otf", "ttf": "font/ttf", "woff": "font/woff", "woff2": "font/woff2",
	// documents
	"doc": "application/msword", "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"epub": "application/epub+zip", "odp": "application/vnd.oasis.opendocument.presentation",
	"ods": "application/vnd.oasis.opendocument.spreadsheet", "odt": "application/vnd.oasis.opendocument.text",
	"pdf": "application/pdf", "ppt": "application/vnd.ms-powerpoint", "ps": "application/postscript",
	"pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation", "rtf": "application/rtf",
	"xls": "application/vnd.ms-excel", "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	// archives
	"7z": "application/x-7z-compressed", "br": "application/x-brotli", "bz2": "application/x-bzip2", "gz": "application/gzip",
	"jar": "application/java-archive", "rar": "application/vnd.rar", "tar": "application/x-tar", "tgz": "application/gzip",
	"xz": "application/x-xz", "zip": "application/zip", "zst": "application/zstd",
}
