// Package authtest makes certificates, keys and tokens for tests. Nothing that it makes is a secret.
package authtest
