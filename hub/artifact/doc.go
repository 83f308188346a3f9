// Package artifact stores the files of tools and skills under the hash of their content.
//
// A [Store] puts a file under the key tools/HASH/NAME or skills/HASH/NAME, where HASH is the
// SHA-256 of the content in hex. The blob exists before the row that names it, several rows may
// name it, and no row is needed to read it. A blob is never deleted with a row: [Store.Sweep]
// deletes the blobs that no row has named for some time.
//
//	ref, err := store.Put(ctx, artifact.Tools, "weather.ts", body)
//	blob, err := store.Open(ctx, ref)
//
// A [Driver] contains the blobs: a [Folder], [Memory], or an S3 bucket with the package s3blob.
// Package artifacttest has the tests that every driver passes.
package artifact
