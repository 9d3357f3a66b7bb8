tblock --version
tblock run --version
