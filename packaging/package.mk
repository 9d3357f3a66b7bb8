# What is installed and distributed (docs/install.md): included by the Makefile, whose variables it uses.
# finds libraries for programs; only root may run it, and not for a staging folder
LDCONFIG ?= ldconfig

# what the program prints itself, under PREFIX/share
PRINTED = man/man1/tblock.1 bash-completion/completions/tblock zsh/site-functions/_tblock fish/vendor_completions.d/tblock.fish

install: all ## install into PREFIX (/usr/local) and LIBDIR (PREFIX/lib), under DESTDIR
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/include" "$(DESTDIR)$(LIBDIR)/pkgconfig" "$(DESTDIR)$(PREFIX)/share/doc/tblock"
	install -m 755 $(BUILD)/tblock "$(DESTDIR)$(PREFIX)/bin/tblock"
	install -m 644 $(PUBLIC) "$(DESTDIR)$(PREFIX)/include"
	install -m 644 $(BUILD)/libtblock.a "$(DESTDIR)$(LIBDIR)/libtblock.a"
	install -m 755 $(BUILD)/libtblock.so "$(DESTDIR)$(LIBDIR)/libtblock.so.$(VERSION)"
	ln -sf libtblock.so.$(VERSION) "$(DESTDIR)$(LIBDIR)/libtblock.so.$(SOMAJOR)"
	ln -sf libtblock.so.$(SOMAJOR) "$(DESTDIR)$(LIBDIR)/libtblock.so"
	@[ ! -e $(BUILD)/libtblock-mpi.so ] || install -D -m 755 $(BUILD)/libtblock-mpi.so "$(DESTDIR)$(PREFIX)/lib/tblock/libtblock-mpi.so"
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' packaging/tblock.pc.in > "$(DESTDIR)$(LIBDIR)/pkgconfig/tblock.pc"
	install -m 644 README.md CHANGELOG.md SECURITY.md LICENSE "$(DESTDIR)$(PREFIX)/share/doc/tblock"
	install -d "$(DESTDIR)$(PREFIX)/share/doc/tblock/docs/examples/regression" "$(DESTDIR)$(PREFIX)/share/doc/tblock/docs/examples/systemd"
	install -m 644 docs/*.md docs/*.svg "$(DESTDIR)$(PREFIX)/share/doc/tblock/docs"
	install -m 644 docs/examples/regression/* "$(DESTDIR)$(PREFIX)/share/doc/tblock/docs/examples/regression"
	install -m 644 docs/examples/systemd/* "$(DESTDIR)$(PREFIX)/share/doc/tblock/docs/examples/systemd"
	install -d $(patsubst %/,"$(DESTDIR)$(PREFIX)/share/%",$(dir $(PRINTED)))
	$(BUILD)/tblock help --man | sed 's|\([ (]\)models/|\1$(PREFIX)/share/tblock/models/|g' > "$(DESTDIR)$(PREFIX)/share/man/man1/tblock.1"
	$(BUILD)/tblock completions bash > "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/tblock"
	$(BUILD)/tblock completions zsh > "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_tblock"
	$(BUILD)/tblock completions fish > "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/tblock.fish"
	chmod 644 $(PRINTED:%="$(DESTDIR)$(PREFIX)/share/%")
	install -d "$(DESTDIR)$(PREFIX)/share/tblock/models"
	install -m 644 models/shakespeare.bin models/*.json models/*.txt models/README.md "$(DESTDIR)$(PREFIX)/share/tblock/models"
	@$(if $(DESTDIR),,PATH="$$PATH:/usr/sbin:/sbin"; [ "$$(id -u)" != 0 ] || $(LDCONFIG) || :)
	@$(if $(DESTDIR),,PATH="$$PATH:/usr/sbin:/sbin"; $(LDCONFIG) -p 2>/dev/null | grep -qF "$(LIBDIR)/libtblock.so" || echo \
	  "programs do not find libtblock.so yet: run ldconfig as root ($(LIBDIR) must be in /etc/ld.so.conf.d), or set LD_LIBRARY_PATH=$(LIBDIR)")

uninstall: ## remove what make install installed
	rm -f "$(DESTDIR)$(PREFIX)/bin/tblock" $(PUBLIC:src/%="$(DESTDIR)$(PREFIX)/include/%") "$(DESTDIR)$(LIBDIR)"/libtblock.a "$(DESTDIR)$(LIBDIR)"/libtblock.so* "$(DESTDIR)$(LIBDIR)/pkgconfig/tblock.pc"
	rm -f $(PRINTED:%="$(DESTDIR)$(PREFIX)/share/%")
	rm -rf "$(DESTDIR)$(PREFIX)/share/doc/tblock" "$(DESTDIR)$(PREFIX)/share/tblock" "$(DESTDIR)$(PREFIX)/lib/tblock"
	@$(if $(DESTDIR),,PATH="$$PATH:/usr/sbin:/sbin"; [ "$$(id -u)" != 0 ] || $(LDCONFIG) || :)

# Of the commit, not of the tree: the same bytes each time. dist-deb.sh makes the packages from that file.
dist: ## build/dist/tblock-VERSION.tar.gz, the source of the last commit
	@mkdir -p build/dist
	git archive --format=tar --prefix=tblock-$(VERSION)/ HEAD | gzip -9n > build/dist/tblock-$(VERSION).tar.gz

# Needs no library at run time, not even a C library: it runs on any Linux of that processor. The archive has the libraries' licences.
STATIC_NAME = tblock-$(VERSION)-linux-$(ARCH)
DATE = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md))
build/dist/$(STATIC_NAME).tar.gz: $(BUILD)/tblock LICENSE README.md CHANGELOG.md
	@rm -rf build/dist/$(STATIC_NAME) && mkdir -p build/dist/$(STATIC_NAME)
	$(CROSS)strip -o build/dist/$(STATIC_NAME)/tblock $<
	cp -r LICENSE README.md CHANGELOG.md $(STATIC_LIBS)/licences build/dist/$(STATIC_NAME)
	tar -C build/dist --sort=name --mtime=@$(DATE) --mode=go=u-w --owner=0 --group=0 --numeric-owner -cf - $(STATIC_NAME) | gzip -9n > $@
static: ## build/dist/tblock-VERSION-linux-ARCH.tar.gz, a static program (ARCH=x86_64|aarch64; takes libraries from Debian)
	@tools/setup.sh static
	@CC=$(if $(filter $(HOST),$(ARCH)),,$(ARCH)-linux-gnu-)gcc packaging/static_libs.sh $(ARCH)
	@$(MAKE) $(JOBS) --no-print-directory config=static build/dist/$(STATIC_NAME).tar.gz

# A file that docker and podman load. MODEL= leaves the model out: then it is mounted.
MODEL = models/shakespeare.bin
IMAGE = build/image-$(ARCH)
BUILDAH = buildah --storage-driver vfs --root $(abspath $(IMAGE)/store) --runroot $(abspath $(IMAGE)/run)
image: static ## build/dist/tblock-VERSION-linux-ARCH.image.tar, a container of the static program (MODEL=models/shakespeare.bin)
	@tools/setup.sh image
	@rm -rf $(IMAGE) && mkdir -p $(IMAGE)/context/models && rm -f build/dist/$(STATIC_NAME).image.tar
	cp -r build/dist/$(STATIC_NAME)/. $(IMAGE)/context
	$(if $(MODEL),install -m 644 $(MODEL) $(IMAGE)/context/models/shakespeare.bin)
	$(BUILDAH) bud -q --isolation chroot --format docker --platform linux/$(if $(filter aarch64,$(ARCH)),arm64,amd64) --timestamp $(DATE) \
	  -f packaging/Containerfile -t tblock:$(VERSION) $(IMAGE)/context
	$(BUILDAH) push -q tblock:$(VERSION) docker-archive:build/dist/$(STATIC_NAME).image.tar:tblock:$(VERSION)
	@rm -rf $(IMAGE)

deb: dist ## Debian packages of the last commit in build/deb: program, library, headers, Python, plug-in for Open MPI
	@tools/setup.sh deb
	@packaging/make_deb.sh $(VERSION)

wheel: dist ## sdist and wheel of the last commit in build/dist/python, for any system with glibc 2.28 (ARCH=x86_64|aarch64; installs zig into .venv-release)
	@tools/setup.sh release
	@packaging/make_wheel.sh $(VERSION) $(ARCH)

release: ## all that is published of the last commit, in build/dist, with SHA256SUMS and an SBOM, and tested (CHECK=1: can it be?)
	@packaging/make_release.sh $(VERSION)

.PHONY: install uninstall dist static image deb wheel release
